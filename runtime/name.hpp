// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "runtime/error.hpp"

namespace millrace {

/// Checks the name of a node, model, application or tenant:
/// [a-z0-9][a-z0-9._-]{0,63} without "..". Such a name is safe as a path
/// component, an address part and a metric label.
/// Errors: bad_request, with the kind of name and the invalid character.
result<void> check_name(std::string_view kind, std::string_view name);

/// Whether a text is one line of UTF-8 without control characters (C0, DEL and
/// C1). A terminal prints such a text and interprets no byte as a command.
bool is_plain(std::string_view text);

/// Checks a free text from a client, such as a trace id.
/// Errors: bad_request, with the kind of text and the escaped bytes.
result<void> check_plain(std::string_view kind, std::string_view text);

} // namespace millrace
