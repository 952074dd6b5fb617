// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// An object store with bundles: a folder, a web server or a bucket. It has the
/// contents of a folder of bundles, and the index.yaml that `millrace model
/// index` writes.
struct object_store_config {
  std::string url;
  std::string endpoint;
  std::string region = "us-east-1";
  std::string credentials;
  bool own_network = false;
  uint64_t parallel = 8;
  microseconds look{10'000'000};
  MILLRACE_FIELDS(object_store_config, url, endpoint, region, credentials,
                  own_network, parallel, look)
  static constexpr auto notes() {
    return std::array{
      note{"file:///FOLDER, https://HOST/FOLDER or s3://BUCKET/FOLDER"},
      note{"for s3: https://HOST of the service; default: Amazon's"},
      note{"for s3: the region that requests are signed for"},
      note{"for s3: a file like ~/.aws/credentials, of which section"
           " [default] is used; default: AWS_ACCESS_KEY_ID,"
           " AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of each process, or"
           " no signature without them"},
      note{"whether the store is in a private network: then its address may"
           " be private, and http is accepted"},
      note{"concurrent requests per host", 1, 256},
      note{"interval between two reads of its index", 0.1}};
  }
};

/// Location of a store's files.
struct object_location {
  enum class scheme : uint8_t { file, http, https, s3 };
  scheme kind = scheme::file;
  std::string base; ///< URL before the paths; ends with /
};

/// Errors: bad_config with the value found and the value expected.
result<object_location> locate(const object_store_config& settings);

/// Kind of an IP address, also of one embedded in another (mapped, 6to4,
/// NAT64).
enum class address_kind : uint8_t {
  everybodys, ///< global unicast
  own,        ///< this host, a private network, or multicast
  /// Link-local, or a cloud's metadata service with a machine's secrets: never
  /// contacted.
  nobodys,
};

/// `octets` are 4 or 16, in network order; any other number is nobodys. (RFC
/// 6890; RFC 4291, sections 2.5.3 to 2.7)
address_kind kind_of_address(std::span<const uint8_t> octets);

} // namespace millrace
