// SPDX-License-Identifier: Apache-2.0

/// \file
/// The series that a GATEWAY shows of a model version: from the start of its
/// service until it has ended and its last request is answered.

#include <algorithm>

#include "actors/gateway/gateway_state.hpp"

namespace millrace {

counter& gateway_state::answers_of(served& x, uint32_t endpoint, ec status) {
  auto i = x.by_status.find({endpoint, status});
  if (i == x.by_status.end())
    i = x.by_status
          .emplace(std::pair{endpoint, status},
                   counts_->requests(x.label(), options_.tenants.at(endpoint),
                                     to_string(status)))
          .first;
  return i->second;
}

/// Shows counts that an alert compares with an earlier value before there is a
/// first such answer.
void gateway_state::show_answers(served& x) {
  for (uint32_t i = 0; i < options_.tenants.size(); ++i)
    answers_of(x, i, ec::poison);
}

/// Shows the times of a version from its first answer on: five histograms are
/// much for a model that gets no requests.
void gateway_state::show_times(served& x) {
  if (x.total_time)
    return;
  x.queue_time.emplace(counts_->request_seconds(x.label(), phase::queue));
  x.execute_time.emplace(counts_->request_seconds(x.label(), phase::execute));
  x.total_time.emplace(counts_->request_seconds(x.label(), phase::total));
  x.gathered_time.emplace(counts_->request_seconds(x.label(), phase::gathered));
  x.interference_time.emplace(
    counts_->request_seconds(x.label(), phase::interference));
}

void gateway_state::hide_if_over(served& x) {
  if (!x.ended || x.open > 0)
    return;
  x.by_status.clear();
  x.queue_time.reset();
  x.execute_time.reset();
  x.total_time.reset();
  x.gathered_time.reset();
  x.interference_time.reset();
}

/// Whether requests for the model may get an answer that counts as its own.
bool gateway_state::may_answer(const std::string& model) const {
  auto versions = by_name_.find(model);
  auto served =
    versions != by_name_.end()
    && std::any_of(
      versions->second.begin(), versions->second.end(),
      [&](auto i) { return !models_[i].ended || models_[i].open > 0; });
  return served || find_wanted(model) != nullptr;
}

void gateway_state::count_refused(const std::string& model, const session& from,
                                  ec status) {
  std::string label{may_answer(model) ? std::string_view{model}
                                      : unknown_model_label};
  auto key = std::tuple{label, from.endpoint, status};
  auto i = refused_.find(key);
  if (i == refused_.end())
    i = refused_
          .emplace(key, counts_->requests({label},
                                          options_.tenants.at(from.endpoint),
                                          to_string(status)))
          .first;
  i->second.add();
}

} // namespace millrace
