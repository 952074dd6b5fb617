// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/predict/variation.hpp"

#include <algorithm>
#include <cmath>

namespace millrace {

double departure_cv(const queueing_station& x) {
  auto load = x.offered() / static_cast<double>(x.servers);
  if (load >= 1)
    return x.service_cv;
  auto arrivals = x.arrival_cv * x.arrival_cv - 1;
  auto service = x.service_cv * x.service_cv - 1;
  auto out = 1 + (1 - load * load) * arrivals
             + load * load * service / std::sqrt(double(x.servers));
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
