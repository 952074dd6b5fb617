// SPDX-License-Identifier: Apache-2.0
#include "transport/objects/settings.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "runtime/text.hpp"

namespace millrace {

namespace {

constexpr std::array schemes{
  std::pair{"file://", object_location::scheme::file},
  std::pair{"http://", object_location::scheme::http},
  std::pair{"https://", object_location::scheme::https},
  std::pair{"s3://", object_location::scheme::s3}};

error refuse(const std::string& url, const std::string& why) {
  return {ec::bad_config, "object store " + shown(url) + ": " + why, {}};
}

/// Characters that need no quoting in a URL, nor in the signed text.
bool is_plain(std::string_view x) {
  return std::all_of(x.begin(), x.end(), [](unsigned char c) {
    return std::isalnum(c) != 0
           || std::string_view{"-._~/:[]"}.find(static_cast<char>(c))
                != std::string_view::npos;
  });
}

struct parts {
  object_location::scheme kind{};
  std::string host;
  std::string path; ///< begins and ends with /
};

result<parts> take_apart(const std::string& url) {
  for (auto& [prefix, kind] : schemes) {
    if (!url.starts_with(prefix))
      continue;
    auto rest = url.substr(std::string_view{prefix}.size());
    if (!is_plain(rest))
      return refuse(url, "has characters other than letters, digits and -._~/:"
                         " (credentials do not belong there)");
    auto slash = std::min(rest.find('/'), rest.size());
    parts out{kind, rest.substr(0, slash), rest.substr(slash)};
    if (!out.path.ends_with('/'))
      out.path += '/';
    if (out.host.empty() != (kind == object_location::scheme::file))
      return refuse(url, out.host.empty() ? "names no host"
                                          : "names a host; a folder is"
                                            " file:///FOLDER");
    return out;
  }
  return refuse(url, "is expected to begin with file:///, https:// or s3://");
}

/// Addresses with a common prefix. Octets that are not given are 0.
struct network {
  std::array<uint8_t, 16> address;
  int bits;
};

/// IPv4: RFC 6890 without link-local, and multicast.
constexpr std::array own_networks{network{{0}, 8},
                                  network{{10}, 8},
                                  network{{100, 64}, 10},
                                  network{{127}, 8},
                                  network{{172, 16}, 12},
                                  network{{192, 0, 0}, 24},
                                  network{{192, 0, 2}, 24},
                                  network{{192, 168}, 16},
                                  network{{198, 18}, 15},
                                  network{{198, 51, 100}, 24},
                                  network{{203, 0, 113}, 24},
                                  network{{224}, 3}};

/// Link-local, and the metadata services of Alibaba and Azure.
constexpr std::array nobodys_networks{network{{169, 254}, 16},
                                      network{{100, 100, 100, 200}, 32},
                                      network{{168, 63, 129, 16}, 32}};

/// Link-local, and the metadata services of Amazon (fd00:ec2::254) and Google
/// (fd20:ce::254).
constexpr std::array nobodys_networks6{
  network{{0xfe, 0x80}, 10},
  network{{0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54}, 128},
  network{{0xfd, 0x20, 0, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54},
          128}};

constexpr network everybodys_network6{{0x20}, 3}; // global unicast

bool is_in(std::span<const uint8_t> octets, const network& x) {
  for (int i = 0; i < x.bits; ++i) {
    auto byte = static_cast<size_t>(i / 8);
    auto bit = 0x80 >> (i % 8);
    if ((octets[byte] & bit) != (x.address[byte] & bit))
      return false;
  }
  return true;
}

/// The IPv4 address that is embedded in an IPv6 address (mapped, NAT64 or
/// 6to4), if any.
std::optional<std::span<const uint8_t>>
ipv4_within(std::span<const uint8_t> octets) {
  static constexpr std::array<uint8_t, 12> mapped{0, 0, 0, 0, 0,    0,
                                                  0, 0, 0, 0, 0xff, 0xff};
  static constexpr std::array<uint8_t, 12> nat64{0, 0x64, 0xff, 0x9b, 0, 0,
                                                 0, 0,    0,    0,    0, 0};
  if (std::equal(mapped.begin(), mapped.end(), octets.begin())
      || std::equal(nat64.begin(), nat64.end(), octets.begin()))
    return octets.subspan(12);
  if (octets[0] == 0x20 && octets[1] == 0x02)
    return octets.subspan(2, 4);
  return std::nullopt;
}

} // namespace

result<object_location> locate(const object_store_config& settings) {
  using enum object_location::scheme;
  auto found = take_apart(settings.url);
  if (!found)
    return found.failure();
  if (found->kind == http && !settings.own_network)
    return refuse(settings.url,
                  "http could be changed on its way through the network:"
                  " expected https, or own_network: true");
  if (settings.region.empty()
      || settings.region.find_first_of("./:[]") != std::string::npos
      || !is_plain(settings.region))
    return refuse(settings.url, "region " + shown(settings.region)
                                  + " is none, expected one like us-east-1");
  object_location out{found->kind, {}};
  if (found->kind != s3) {
    out.base = settings.url + (settings.url.ends_with('/') ? "" : "/");
    if (!settings.endpoint.empty())
      return refuse(settings.url, "an endpoint is for s3 alone");
    return out;
  }
  if (settings.endpoint.empty()) {
    out.base = "https://" + found->host + ".s3." + settings.region
               + ".amazonaws.com" + found->path;
    return out;
  }
  auto at = take_apart(settings.endpoint);
  if (!at)
    return at.failure();
  if (at->path != "/" || (at->kind != https && at->kind != http)
      || (at->kind == http && !settings.own_network))
    return refuse(settings.endpoint,
                  "is expected to be https://HOST, or http://HOST"
                  " and own_network: true");
  out.base = (at->kind == http ? "http://" : "https://") + at->host + "/"
             + found->host + found->path;
  return out;
}

address_kind kind_of_address(std::span<const uint8_t> octets) {
  using enum address_kind;
  auto in_any = [&](auto& all) {
    return std::any_of(all.begin(), all.end(),
                       [&](auto& x) { return is_in(octets, x); });
  };
  if (octets.size() == 4) {
    if (in_any(nobodys_networks))
      return nobodys;
    return in_any(own_networks) ? own : everybodys;
  }
  if (octets.size() != 16)
    return nobodys;
  if (auto within = ipv4_within(octets))
    return kind_of_address(*within);
  if (in_any(nobodys_networks6))
    return nobodys;
  return is_in(octets, everybodys_network6) ? everybodys : own;
}

} // namespace millrace
