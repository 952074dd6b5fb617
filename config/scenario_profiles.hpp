// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/scenario.hpp"

namespace millrace {

/// The times of a scenario's models on every kind of device: of their files and
/// tables, of the models they are like, and of the kinds that are like others.
/// Errors: bad_config with the file of a profile.
result<profile_book> make_profiles(const scenario& what,
                                   const device_catalogue& kinds);

/// Reads a file with kinds of devices. Errors: bad_config with file, line and
/// key; also for a kind that is like one that is not there.
result<device_catalogue> load_catalogue(const std::string& path);

} // namespace millrace
