// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "runtime/error.hpp"

namespace millrace {

/// Checks a name people give to a node, model, application or tenant:
/// [a-z0-9][a-z0-9._-]{0,63} without "..", so that it is safe as a path
/// component, an address part and a metric label.
/// Errors: bad_request, saying which kind of thing and which character.
result<void> check_name(std::string_view kind, std::string_view name);

/// Whether a text is UTF-8 of one line without control characters (C0, DEL and
/// C1), so that a terminal shows the text and obeys none of its bytes.
bool is_plain(std::string_view text);

/// Checks a text that a client chose freely, such as a trace id.
/// Errors: bad_request, with the kind of text and its bytes escaped.
result<void> check_plain(std::string_view kind, std::string_view text);

} // namespace millrace
