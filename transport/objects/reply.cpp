// SPDX-License-Identifier: Apache-2.0
#include "transport/objects/reply.hpp"

#include "runtime/text.hpp"

namespace millrace {

namespace {

/// What S3 says, <Code> and <Message>; empty where it is none of that.
std::string element_of(const std::string& body, const std::string& name) {
  auto begin = body.find("<" + name + ">");
  auto end = body.find("</" + name + ">");
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return {};
  begin += name.size() + 2;
  return shown(body.substr(begin, end - begin));
}

std::string excuse_of(const object_reply& x) {
  auto out = "HTTP " + std::to_string(x.status);
  if (auto code = element_of(x.body, "Code"); !code.empty())
    out += ", " + code + " " + element_of(x.body, "Message");
  return out;
}

/// Of libcurl's errors, those that are of the moment.
bool may_pass(CURLcode x) {
  switch (x) {
  case CURLE_COULDNT_RESOLVE_HOST:
  case CURLE_COULDNT_CONNECT:
  case CURLE_OPERATION_TIMEDOUT:
  case CURLE_GOT_NOTHING:
  case CURLE_PARTIAL_FILE:
  case CURLE_SEND_ERROR:
  case CURLE_RECV_ERROR:
  case CURLE_HTTP2:
  case CURLE_HTTP2_STREAM:
    return true;
  default:
    return false;
  }
}

object_failure failed(const object_reply& x, ec code, const std::string& why,
                      bool may_pass = false) {
  return {{code, x.url + ": " + why, {}}, may_pass};
}

object_failure refused(const object_reply& x) {
  auto who = x.signed_by.empty()
               ? "nobody's credentials were sent: expected"
                 " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or"
                 " credentials in the config"
               : "sent were the credentials of " + x.signed_by;
  return failed(x, ec::forbidden, excuse_of(x) + "; " + who);
}

} // namespace

std::optional<object_failure> failure_of(const object_reply& x) {
  if (x.status == 401 || x.status == 403)
    return refused(x);
  if (x.status == 404 || x.code == CURLE_FILE_COULDNT_READ_FILE)
    return failed(x, ec::unknown_model,
                  x.status == 404 ? excuse_of(x) : "there is no such file");
  if (x.range > 0 && x.status == 200)
    return failed(x, ec::unavailable,
                  "the server gives no ranges of files (HTTP 200, expected"
                  " 206)");
  if (x.too_large)
    return failed(x, ec::too_large,
                  "has more than the " + std::to_string(x.most)
                    + " bytes that it may");
  if (x.status >= 300 && x.status < 400)
    return failed(x, ec::unavailable,
                  excuse_of(x) + ": sends elsewhere, which is not followed");
  if (x.status >= 400)
    return failed(x, ec::unavailable, excuse_of(x),
                  x.status == 408 || x.status == 429 || x.status >= 500);
  if (x.code != CURLE_OK)
    return failed(x, ec::unavailable,
                  x.why.empty() ? curl_easy_strerror(x.code) : x.why,
                  may_pass(x.code));
  if (x.range > 0 && x.body.size() != x.range)
    return failed(x, ec::unavailable,
                  "has " + std::to_string(x.body.size()) + " bytes from "
                    + std::to_string(x.first) + " on, expected "
                    + std::to_string(x.range));
  return std::nullopt;
}

} // namespace millrace
