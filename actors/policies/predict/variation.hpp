// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "actors/policies/predict/queueing.hpp"

namespace millrace {

/// Coefficient of variation of the gaps between departures of a station with
/// capacity, by Whitt's queueing network analyser:
/// c_d^2 = 1 + (1 - load^2) (c_a^2 - 1) + load^2 (c_s^2 - 1) / sqrt(servers).
/// A station without capacity departs as it serves: c_s.
double departure_cv(const queueing_station& station);

/// Predicts the arrival CV of each stage of a chain from the CV of the first
/// stage, without training (digest of QUART, section 3.4). The second stage
/// gets the departures of the first. Each later stage has the CV of the stage
/// before, because a stage of similar service time hardly changes a shaped
/// stream.
std::vector<double> predicted_cvs(const std::vector<queueing_station>& stages);

} // namespace millrace
