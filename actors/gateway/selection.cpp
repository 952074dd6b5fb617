// SPDX-License-Identifier: Apache-2.0

/// \file
/// How a GATEWAY chooses the variant for a request of an application by cost
/// (INFaaS, section 4.1, Case I).

#include <utility>

#include "actors/gateway/gateway_state.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// Cost and times of a variant that no policy compares with others.
constexpr variant_standing unknown_standing{};

/// Replicas and routers are on workers; a gateway chooses the variant alone, so
/// that its catalogue has one worker.
constexpr size_t cluster_wide = 0;

} // namespace

/// The variants as the last message of a controller and the replicas describe
/// them. A variant is active when its replicas can answer and its scaling
/// policy has found it neither overloaded nor interfered.
const variant_catalogue& gateway_state::catalogue() const {
  if (catalogue_)
    return *catalogue_;
  auto& out = catalogue_.emplace();
  for (auto& m : models_) {
    auto* known = standing_of(m);
    auto& is = known == nullptr ? unknown_standing : *known;
    auto latency = is.latency > 0 ? is.latency : to_seconds(m.latency);
    auto variant = out.add({m.info.application, m.info.accuracy.value_or(0),
                            latency, is.load, is.cost, out.size()});
    auto degraded = is.state == variant_state::overloaded
                    || is.state == variant_state::interfered;
    auto room = m.waits && m.obstacle.empty() && (known == nullptr || is.room);
    out.set_utilisation(cluster_wide, variant, room ? 0 : 1);
    if (is_ready(m))
      out.set_replica(variant, cluster_wide, 0, degraded);
  }
  return out;
}

const variant_standing* gateway_state::standing_of(const served& x) const {
  auto* wanted = find_wanted(x.info.model);
  return wanted != nullptr && wanted->standing ? &*wanted->standing : nullptr;
}

/// Seconds until a variant's replicas would have answered one more request, if
/// no other gateway gave them any; 0 where its costs are not known.
double gateway_state::wait_at(const served& x) const {
  auto* is = standing_of(x);
  auto replicas = static_cast<double>(x.replicas.size());
  return is == nullptr || is->saturation <= 0 || replicas == 0
           ? 0
           : static_cast<double>(x.open + 1) / (is->saturation * replicas);
}

/// Whether a variant's replicas answer one more request within the SLO.
bool gateway_state::is_in_time(const served& x) const {
  auto* wanted = find_wanted(x.info.model);
  return wanted == nullptr || wanted->slo <= 0us
         || wait_at(x) <= to_seconds(wanted->slo);
}

/// The cheapest variant that can answer within the SLO; else, of those that can
/// answer, the one with the least wait; else the one that is loaded soonest. A
/// request loads a variant only if no variant can answer: which ones are loaded
/// for more load is the scaling policy's decision. (The paper also loads one
/// while all others are overloaded; requests that wait for such loads made 36 %
/// of the answers of infaas-fluctuating.yaml late.) Nothing: no variant of the
/// application meets what the request demands, or none can answer.
std::optional<size_t> gateway_state::choose_by_cost(const infer& x,
                                                    const session& from) const {
  auto rule = options_.selection == selection_policy::brute
                ? selection_rule::brute
                : selection_rule::infaas;
  std::optional<size_t> quickest; // that is not in time
  auto may = [&](size_t i) {
    auto& m = models_[i];
    if (!is_for(m, from) || !is_ready(m))
      return false;
    if (is_in_time(m))
      return true;
    // Whatever the order in which the rule looks at the variants.
    if (!quickest
        || std::pair{wait_at(m), i}
             < std::pair{wait_at(models_[*quickest]), *quickest})
      quickest = i;
    return false;
  };
  variant_query query{x.application, x.accuracy.value_or(0),
                      x.latency ? to_seconds(*x.latency) : 0, false, may};
  auto chosen = catalogue().choose(query, rule);
  if (!chosen && quickest)
    return quickest;
  if (!chosen) {
    query.allowed = [&](size_t i) { return is_for(models_[i], from); };
    chosen = catalogue().choose(query, rule);
  }
  if (!chosen)
    return std::nullopt;
  return chosen->variant;
}

} // namespace millrace
