// SPDX-License-Identifier: Apache-2.0

/// \file
/// Metrics of a GATEWAY for each model version: shown until the version has
/// ended and its last request is answered.

#include <algorithm>

#include "actors/gateway/gateway_state.hpp"

namespace millrace {

counter& gateway_state::answers_of(served& model, uint32_t endpoint,
                                   ec status) {
  auto i = model.by_status.find({endpoint, status});
  if (i == model.by_status.end())
    i =
      model.by_status
        .emplace(std::pair{endpoint, status},
                 counts_->requests(model.label(), options_.tenants.at(endpoint),
                                   to_string(status)))
        .first;
  return i->second;
}

/// Shows the counters of alerts at 0: an alert compares a counter with its
/// earlier value.
void gateway_state::show_answers(served& model) {
  for (uint32_t i = 0; i < options_.tenants.size(); ++i)
    answers_of(model, i, ec::poison);
}

/// Shows the histograms of a version from its first answer on, to save series
/// for models without requests.
void gateway_state::show_times(served& model) {
  if (model.total_time)
    return;
  model.queue_time.emplace(
    counts_->request_seconds(model.label(), phase::queue));
  model.execute_time.emplace(
    counts_->request_seconds(model.label(), phase::execute));
  model.total_time.emplace(
    counts_->request_seconds(model.label(), phase::total));
  model.gathered_time.emplace(
    counts_->request_seconds(model.label(), phase::gathered));
  model.interference_time.emplace(
    counts_->request_seconds(model.label(), phase::interference));
}

void gateway_state::hide_if_over(served& model) {
  if (!model.ended || model.open > 0)
    return;
  model.by_status.clear();
  model.queue_time.reset();
  model.execute_time.reset();
  model.total_time.reset();
  model.gathered_time.reset();
  model.interference_time.reset();
}

/// Whether answers are counted under the name of the model: the model is
/// wanted, or one of its versions is served or has open requests.
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
