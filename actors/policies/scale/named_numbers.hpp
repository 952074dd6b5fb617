// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "runtime/error.hpp"

namespace millrace {

/// Reads an option of names with a number each: "m60 0.75; v100 3.06". An empty
/// text has no names. Errors: bad_request with the option and the item, for an
/// item of another form, a number that is not above 0, or a repeated name.
result<std::map<std::string, double>>
parse_named_numbers(const std::string& option, const std::string& text);

/// Reads option `prices`, by kind of device. Errors: as above, and for an empty
/// text.
result<std::map<std::string, double>> parse_prices(const std::string& text);

} // namespace millrace
