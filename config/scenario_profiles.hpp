// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/scenario.hpp"

namespace millrace {

/// Builds the profiles of a scenario's models on all kinds of devices. The
/// times come from profile files, tables, the models named by `like`, and the
/// kinds named by `like`.
/// Errors: bad_config with the file of a profile.
result<profile_book> make_profiles(const scenario& what,
                                   const device_catalogue& kinds);

/// Reads a file with kinds of devices. Errors: bad_config with file, line and
/// key; also for an unknown kind in `like`.
result<device_catalogue> load_catalogue(const std::string& path);

} // namespace millrace
