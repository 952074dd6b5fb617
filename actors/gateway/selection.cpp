// SPDX-License-Identifier: Apache-2.0

/// \file
/// Choice of a GATEWAY's variant for a request of an application, by cost
/// (INFaaS, section 4.1, Case I).

#include <utility>

#include "actors/gateway/gateway_state.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// The only worker of the catalogue: a gateway chooses a variant; its router
/// chooses the replica.
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
    auto is = m.standing.value_or(variant_standing{});
    auto latency = is.latency > 0 ? is.latency : to_seconds(m.latency);
    auto variant = out.add({m.info.application, m.info.accuracy.value_or(0),
                            latency, is.load, is.cost, out.size()});
    auto degraded = is.state == variant_state::overloaded
                    || is.state == variant_state::interfered;
    auto room = m.waits && m.obstacle.empty() && (!m.standing || is.room);
    out.set_utilisation(cluster_wide, variant, room ? 0 : 1);
    if (is_ready(m))
      out.set_replica(variant, cluster_wide, 0, degraded);
  }
  return out;
}

/// Seconds until the replicas of a variant would have answered one more
/// request, without requests of other gateways; 0: the costs are not known.
double gateway_state::wait_at(const served& model) {
  auto replicas = static_cast<double>(model.replicas.size());
  auto rate = model.standing ? model.standing->saturation * replicas : 0;
  return rate > 0 ? static_cast<double>(model.open + 1) / rate : 0;
}

/// Whether the replicas of a variant answer one more request within the SLO.
bool gateway_state::is_in_time(const served& model) {
  return model.slo <= 0us || wait_at(model) <= to_seconds(model.slo);
}

/// Chooses, in this order:
/// 1. the cheapest variant that answers within the SLO;
/// 2. the ready variant with the least wait;
/// 3. the variant that is loaded soonest.
/// A request loads a variant only if no variant can answer: the scaling policy
/// decides which variants are loaded for more load. (The paper also loads a
/// variant while all others are overloaded. Requests that waited for such loads
/// made 36 % of the answers of infaas-fluctuating.yaml late.) Nothing: no
/// variant of the application meets the demands of the request, or none can
/// answer.
std::optional<size_t> gateway_state::choose_by_cost(const infer& request,
                                                    const session& from) const {
  auto rule = options_.selection == selection_policy::brute
                ? selection_rule::brute
                : selection_rule::infaas;
  std::optional<size_t> quickest; // among variants that exceed the SLO
  auto may = [&](size_t i) {
    auto& m = models_[i];
    if (!is_for(m, from) || !is_ready(m))
      return false;
    if (is_in_time(m))
      return true;
    // Does not depend on the order in which a rule visits the variants.
    if (!quickest
        || std::pair{wait_at(m), i}
             < std::pair{wait_at(models_[*quickest]), *quickest})
      quickest = i;
    return false;
  };
  variant_query query{request.application, request.accuracy.value_or(0),
                      request.latency ? to_seconds(*request.latency) : 0, false,
                      may};
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
