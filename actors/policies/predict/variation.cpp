// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/predict/variation.hpp"

#include <algorithm>
#include <cmath>

namespace millrace {

double departure_cv(const queueing_station& station) {
  auto load = station.offered() / static_cast<double>(station.servers);
  if (load >= 1)
    return station.service_cv;
  auto arrivals = station.arrival_cv * station.arrival_cv - 1;
  auto service = station.service_cv * station.service_cv - 1;
  auto out = 1 + (1 - load * load) * arrivals
             + load * load * service / std::sqrt(double(station.servers));
  return std::sqrt(std::max(0.0, out));
}

std::vector<double> predicted_cvs(const std::vector<queueing_station>& stages) {
  std::vector<double> out;
  for (size_t i = 0; i < stages.size(); ++i)
    out.push_back(i == 0   ? stages[0].arrival_cv
                  : i == 1 ? departure_cv(stages[0])
                           : out.back());
  return out;
}

} // namespace millrace
