// SPDX-License-Identifier: Apache-2.0
#include "transport/objects/reply.hpp"

#include "runtime/text.hpp"

namespace millrace {

namespace {

/// The text of an element, such as <Code> or <Message>, in an S3 error; empty
/// if there is none.
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

/// Whether a libcurl error may be temporary.
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
               ? "no credentials were sent: expected"
                 " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or"
                 " credentials in the config"
               : "sent were the credentials of " + x.signed_by;
  return failed(x, ec::forbidden, excuse_of(x) + "; " + who);
}

} // namespace

std::optional<object_failure> failure_of(const object_reply& reply) {
  if (reply.status == 401 || reply.status == 403)
    return refused(reply);
  if (reply.status == 404 || reply.code == CURLE_FILE_COULDNT_READ_FILE)
    return failed(reply, ec::unknown_model,
                  reply.status == 404 ? excuse_of(reply)
                                      : "there is no such file");
  if (reply.range > 0 && reply.status == 200)
    return failed(reply, ec::unavailable,
                  "the server does not support byte ranges (HTTP 200,"
                  " expected 206)");
  if (reply.too_large)
    return failed(reply, ec::too_large,
                  "has more than the expected " + std::to_string(reply.most)
                    + " bytes");
  if (reply.status >= 300 && reply.status < 400)
    return failed(reply, ec::unavailable,
                  excuse_of(reply) + ": redirections are not followed");
  if (reply.status >= 400)
    return failed(reply, ec::unavailable, excuse_of(reply),
                  reply.status == 408 || reply.status == 429
                    || reply.status >= 500);
  if (reply.code != CURLE_OK)
    return failed(reply, ec::unavailable,
                  reply.why.empty() ? curl_easy_strerror(reply.code)
                                    : reply.why,
                  may_pass(reply.code));
  if (reply.range > 0 && reply.body.size() != reply.range)
    return failed(reply, ec::unavailable,
                  "has " + std::to_string(reply.body.size()) + " bytes from "
                    + std::to_string(reply.first) + " on, expected "
                    + std::to_string(reply.range));
  return std::nullopt;
}

} // namespace millrace
