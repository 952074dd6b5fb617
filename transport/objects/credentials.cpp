// SPDX-License-Identifier: Apache-2.0
#include "transport/objects/credentials.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "runtime/bytes.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

constexpr size_t most_file_bytes = 1u << 16;

std::string_view trimmed(std::string_view x) {
  constexpr auto blank = " \t\r";
  auto first = std::min(x.find_first_not_of(blank), x.size());
  return x.substr(first, x.find_last_not_of(blank) + 1 - first);
}

/// The [default] section of a file of [SECTION]s and KEY = VALUE lines.
std::map<std::string, std::string> default_section(const std::string& text) {
  std::map<std::string, std::string> out;
  auto inside = false;
  for (auto line : split(text, '\n')) {
    auto words = trimmed(line);
    if (words.starts_with('['))
      inside = words == "[default]";
    auto equals = words.find('=');
    if (inside && equals != std::string_view::npos)
      out.emplace(trimmed(words.substr(0, equals)),
                  trimmed(words.substr(equals + 1)));
  }
  return out;
}

std::string environment(const char* name) {
  auto* x = std::getenv(name);
  return x == nullptr ? "" : x;
}

} // namespace

result<s3_credentials> find_credentials(const object_store_config& settings) {
  s3_credentials out;
  if (settings.credentials.empty()) {
    out.id = environment("AWS_ACCESS_KEY_ID");
    out.secret = environment("AWS_SECRET_ACCESS_KEY");
    out.session = environment("AWS_SESSION_TOKEN");
    out.from = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
    return out;
  }
  auto text = read_file(settings.credentials, most_file_bytes);
  if (!text)
    return text.failure();
  auto said = default_section(*text);
  out.id = said["aws_access_key_id"];
  out.secret = said["aws_secret_access_key"];
  out.session = said["aws_session_token"];
  out.from = settings.credentials;
  if (out.id.empty() || out.secret.empty())
    return error{ec::bad_config,
                 settings.credentials
                   + ": [default] is expected to have aws_access_key_id and"
                     " aws_secret_access_key",
                 {}};
  return out;
}

} // namespace millrace
