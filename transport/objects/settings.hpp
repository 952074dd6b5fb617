// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// An object store that has bundles: a folder, a web server or a bucket. What
/// is in it is what a folder of bundles has, and the index.yaml that `millrace
/// model index` puts there.
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
      note{"of s3: https://HOST of the service; default: Amazon's"},
      note{"of s3: what requests are signed for"},
      note{"of s3: a file as ~/.aws/credentials is, of which [default] counts;"
           " default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and"
           " AWS_SESSION_TOKEN of each process, else nothing is signed"},
      note{"whether it is in a network of your own: then its address may be"
           " private, and http will do"},
      note{"requests at a time, of each host", 1, 256},
      note{"between two looks into its index", 0.1}};
  }
};

/// Where files of a store are, taken apart.
struct object_location {
  enum class scheme : uint8_t { file, http, https, s3 };
  scheme kind = scheme::file;
  std::string base; ///< URL that paths are put behind, with / at its end
};

/// Errors: bad_config, with what was found and what was expected.
result<object_location> locate(const object_store_config& x);

/// Whose an address is, also where it stands within another (mapped, 6to4, by
/// way of NAT64).
enum class address_kind : uint8_t {
  everybodys, ///< of the internet
  own,        ///< this host's, or of a private network, or multicast
  nobodys,    ///< of a link alone, or one where a cloud tells a machine's
              ///< secrets: nobody may ever be sent there
};

/// `octets` are 4 or 16, as they are sent; where they are not, it is nobody's.
/// (RFC 6890; RFC 4291, sections 2.5.3 to 2.7)
address_kind kind_of_address(std::span<const uint8_t> octets);

} // namespace millrace
