// SPDX-License-Identifier: Apache-2.0
#include "actors/profiler/profiler_state.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "models/partition/profile_remarks.hpp"
#include "runtime/limits.hpp"
#include "runtime/log.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "transport/bus.hpp"
#include "transport/codec.hpp"

namespace millrace {

namespace {

constexpr auto profiles_table = "profiles";

/// Timeout of the measurement of a large model on a node.
constexpr auto measure_timeout = 30min;

/// Limits of changes that wait for the disk, and of stored profiles; far above
/// the number of models in a cluster.
constexpr size_t changes_max = 64;
constexpr size_t most_profiles = 10'000;

/// Merges a new profile with the stored points of other device kinds.
profile merged(profile x, profile known) {
  auto kinds = devices_in(x);
  std::erase_if(known.points,
                [&](auto& p) { return kinds.contains(p.device); });
  x.points.insert(x.points.end(), known.points.begin(), known.points.end());
  std::erase_if(known.sources,
                [&](auto& y) { return kinds.contains(y.first); });
  x.sources.merge(known.sources);
  return x;
}

} // namespace

void profiler_state::start(
  profiler_actor::stateful_pointer<profiler_state> self,
  profiler_options options) {
  self_ = self;
  options_ = std::move(options);
  set_common_handlers(self);
  table_ = {options_.facts, changes_max,
            [this](change& x) { return row_of(x); },
            [tell = teller<row_written>(self)](auto version) {
              tell({std::make_shared<decltype(version)>(std::move(version))});
            }};
  options_.facts->load(
    profiles_table, [tell = teller<rows_read>(self)](auto x) {
      tell({profiles_table, std::make_shared<decltype(x)>(std::move(x))});
    });
  self->delayed_send(self, options_.period, tick::value);
}

void profiler_state::on_rows(const rows_read& message) {
  if (!*message.rows)
    return self_->quit(to_caf(message.rows->failure()));
  for (auto& row : **message.rows) {
    table_.on_read(profiles_table, row);
    if (auto taken = take_row(row); !taken)
      log_event(log_level::error, "profiler", "not_read",
                {{"row", row.key}, {"error", to_string(taken.failure())}});
  }
  if (options_.known)
    for (auto& profile : options_.known->all())
      if (profiles_.size() < most_profiles)
        profiles_.try_emplace(key_of(profile), entry{profile, 0});
  for (auto& [of, known] : profiles_)
    costs_due_.insert(of.first);
  table_.start();
  publish_costs();
}

/// Errors: bad_request for an invalid row, bad_config for a row with another
/// schema. An unread row stays until the model is measured again.
result<void> profiler_state::take_row(const stored_row& stored) {
  decode_context ctx;
  auto row = decode<profile_row>(std::as_bytes(std::span{stored.value}), ctx);
  if (!row)
    return row.failure();
  if (row->schema != profile_row{}.schema)
    return error{ec::bad_config,
                 "is of schema " + std::to_string(row->schema) + ", expected "
                   + std::to_string(profile_row{}.schema),
                 {}};
  if (row->what.model.empty()) {
    take_averages(row->live);
    return {};
  }
  auto what = unpack(row->what);
  if (!what)
    return what.failure();
  auto at = key_of(*what);
  profiles_[at] = {std::move(*what), stored.version};
  return {};
}

profiler_state::key profiler_state::key_of(const profile& measured) {
  return {measured.model, measured.layers};
}

// -- measuring ----------------------------------------------------------------

result<profiler_state::site>
profiler_state::site_for(const measure_model& request) const {
  model_settings asked;
  asked.model = request.model;
  asked.version = request.version;
  auto version = resolve_version(view_, asked);
  if (version == 0)
    return error{
      ec::unknown_model,
      "no node has a bundle of model '" + request.model + "'"
        + (request.version.empty() ? "" : " version '" + request.version + "'"),
      {}};
  auto fits = false;
  std::optional<site> shared; // the first device that has replicas
  for (auto& [name, node] : view_.nodes)
    for (auto& d : node.devices) {
      auto right =
        request.device.empty() || selects_device(request.device, name, d);
      if (!right || node.draining
          || bundle_on(node, request.model, version) == nullptr)
        continue;
      fits = true;
      if (measuring_.contains({name, d.id}))
        continue;
      auto has_replicas =
        std::any_of(node.replicas.begin(), node.replicas.end(), [&](auto& r) {
          return r.what.device == d.id && r.state != replica_condition::failed;
        });
      if (!has_replicas)
        return site{&node, &d, version};
      if (!shared)
        shared = site{&node, &d, version};
    }
  if (shared)
    return *shared;
  auto where =
    request.device.empty() ? "no device" : "no device " + request.device;
  return error{ec::unavailable,
               fits ? where + " is free: another measurement runs on each"
                    : where + " is on a ready node that has the bundle",
               {}};
}

caf::result<ack> profiler_state::on_measure(const measure_model& request) {
  auto at = site_for(request);
  if (!at)
    return to_caf(at.failure());
  auto node = options_.net->resolve(at->node->node.name + "/supervisor");
  if (!node)
    return to_caf(error{
      ec::unavailable, "node " + at->node->node.name + " is out of reach", {}});
  auto promise = self_->make_response_promise<ack>();
  std::pair where{at->node->node.name, at->device->id};
  auto number = ++last_measurement_;
  measuring_[where] = {number, promise};
  log_event(log_level::info, "profiler", "measure",
            {{"model", request.model},
             {"version", at->version},
             {"node", at->node->node.name},
             {"device", at->device->id}});
  self_
    ->request(caf::actor_cast<supervisor_actor>(node), measure_timeout,
              measure{request.model, at->version, at->device->id, request.rows,
                      request.extent, request.threshold})
    .then(
      [this, where, number, model = request.model](measured& y) {
        auto to = end_measurement(where, number);
        auto what = unpack(y.what);
        if (what && what->model == model)
          return keep(std::move(*what), to);
        to.deliver(to_caf(
          what ? error{ec::internal, "the node measured " + shown(what->model)}
               : what.failure()));
      },
      [this, where, number](caf::error& y) {
        end_measurement(where, number).deliver(std::move(y));
      });
  return promise;
}

/// Ends a measurement and returns its promise; an empty promise when the node
/// was lost meanwhile.
profiler_state::ack_promise profiler_state::end_measurement(
  const std::pair<std::string, std::string>& where, uint64_t number) {
  auto i = measuring_.find(where);
  if (i == measuring_.end() || i->second.first != number)
    return {};
  auto out = i->second.second;
  measuring_.erase(i);
  return out;
}

caf::result<ack> profiler_state::on_keep(const keep_profile& request) {
  auto what = unpack(request.what);
  if (!what)
    return to_caf(what.failure());
  auto promise = self_->make_response_promise<ack>();
  auto remarks = remarks_on(*what);
  for (auto& y : remarks_here(*what))
    remarks.push_back(std::move(y));
  keep(std::move(*what), promise, std::move(remarks));
  return promise;
}

/// Lists reasons why no node of this cluster can use a profile.
std::vector<std::string>
profiler_state::remarks_here(const profile& measured) const {
  std::vector<std::string> out;
  std::set<std::string> kinds;
  std::map<std::string, size_t> layers; // number of layers, by layers_key
  for (auto& [name, node] : view_.nodes) {
    for (auto& d : node.devices)
      kinds.insert(d.kind);
    for (auto& m : node.models)
      if (m.model == measured.model)
        layers[m.layers_key] = m.layer_bytes.size();
  }
  for (auto& kind : devices_in(measured)) {
    auto of = layers_in(measured, kind);
    if (!kinds.contains(kind))
      out.push_back(
        "no device here is of kind " + shown(kind)
        + (kinds.empty()
             ? std::string{}
             : " (there is " + joined(kinds, ", ", std::identity{}) + ")"));
    auto fits = [&](auto& y) {
      return (measured.layers.empty() || measured.layers == y.first)
             && (of == 0 || y.second == of);
    };
    if ((measured.layers.empty() ? !layers.empty()
                                 : layers.contains(measured.layers))
        && std::none_of(layers.begin(), layers.end(), fits))
      out.push_back("the profile has " + std::to_string(of) + " layers on "
                    + shown(kind) + ", and no bundle here has that number");
  }
  if (layers.empty())
    out.push_back("no node here has a bundle of " + shown(measured.model));
  else if (!measured.layers.empty() && !layers.contains(measured.layers))
    out.push_back("no bundle here has these layers, "
                  + millrace::first_of(measured.layers, 12));
  return out;
}

caf::result<ack> profiler_state::on_forget(const forget_profiles& request) {
  if (first_of(request.model) == profiles_.end())
    return to_caf(
      {ec::unknown_model, "no profile of " + shown(request.model), {}});
  if (table_.is_full())
    return to_caf({ec::overloaded, "too many changes wait for the disk", {}});
  auto promise = self_->make_response_promise<ack>();
  table_.push({{request.model, {}}, std::nullopt, promise});
  return promise;
}

// -- writes, one after the other ----------------------------------------------

void profiler_state::keep(profile measured, ack_promise promise,
                          std::vector<std::string> remarks) {
  auto of = key_of(measured);
  if (table_.is_full()
      || (profiles_.size() >= most_profiles && !profiles_.contains(of))) {
    promise.deliver(to_caf({ec::overloaded, "too many profiles", {}}));
    return;
  }
  table_.push(
    {std::move(of), std::move(measured), promise, std::move(remarks)});
}

/// Returns the first profile of a model, for any layers.
std::map<profiler_state::key, profiler_state::entry>::iterator
profiler_state::first_of(const std::string& model) {
  auto i = profiles_.lower_bound({model, {}});
  return i != profiles_.end() && i->first.first == model ? i : profiles_.end();
}

std::optional<row_write> profiler_state::row_of(change& wanted) {
  auto& of = wanted.of;
  auto& what = wanted.what;
  auto of_averages = of.first.empty();
  profile_row row;
  if (of_averages) {
    for (auto& [at, average] : live_)
      row.live.push_back(average.cost);
  } else {
    auto known = what ? profiles_.find(of) : first_of(of.first);
    if (known != profiles_.end())
      of = known->first;
    if (what && known != profiles_.end())
      *what = merged(std::move(*what), known->second.what);
    if (what)
      row.what = pack(*what);
    if (auto fine = what ? unpack(row.what) : profile{}; !fine) {
      // Together with the stored points, the profile exceeds the limits of
      // unpack().
      wanted.promise.deliver(to_caf(fine.failure()));
      return std::nullopt;
    }
  }
  encoder out{timestamp{}, nullptr};
  out.put(row);
  return row_write{profiles_table, of.first + "/" + of.second,
                   what || of_averages ? std::string{out.take_body().text()}
                                       : std::string{}};
}

void profiler_state::on_written(const row_written& message) {
  auto written = table_.finish(*message.version);
  auto& of = written.of;
  auto of_averages = of.first.empty();
  if (!*message.version) {
    log_event(log_level::error, "profiler", "not_written",
              {{"error", to_string(message.version->failure())}});
    if (!of_averages)
      written.promise.deliver(to_caf(message.version->failure()));
  } else if (!of_averages) {
    costs_due_.insert(of.first);
    std::erase_if(plans_, [&](auto& y) { return y.first.first == of; });
    if (written.what)
      profiles_[of] = {std::move(*written.what), **message.version};
    else
      take_forgotten(of);
    if (written.what || first_of(of.first) == profiles_.end())
      written.promise.deliver(ack{std::move(written.remarks)});
    else // the model has profiles of other layers
      table_.push_front(std::move(written));
  }
  publish_costs();
  table_.go_on();
}

/// Drops a profile whose row was deleted, and the averages of its model.
void profiler_state::take_forgotten(const key& of) {
  profiles_.erase(of);
  auto dropped = std::erase_if(live_, [&](auto& average) {
    return average.second.cost.model == of.first;
  });
  live_changed_ |= dropped > 0;
}

// -- queries ------------------------------------------------------------------

profile_list profiler_state::on_get(const get_profiles& request) const {
  profile_list out;
  for (auto& [at, y] : profiles_)
    if (request.model.empty() || at.first == request.model)
      out.profiles.push_back(pack(y.what));
  for (auto& [at, y] : live_)
    if (request.model.empty() || y.cost.model == request.model)
      out.live.push_back(y.cost);
  return out;
}

/// Returns the bundle of a version; null when no node has one.
const model_info* profiler_state::info_of(const std::string& model,
                                          const std::string& version) const {
  model_settings asked;
  asked.model = model;
  asked.version = version;
  return bundle_of(view_, model, resolve_version(view_, asked));
}

/// Returns the profile of a version's layers, then the profile for any layers.
std::vector<const profiler_state::entry*>
profiler_state::profiles_of(const std::string& model,
                            const std::string& version) const {
  std::vector<const entry*> out;
  auto* info = info_of(model, version);
  auto add = [&](const std::string& layers) {
    if (auto i = profiles_.find({model, layers}); i != profiles_.end())
      out.push_back(&i->second);
  };
  if (info != nullptr && !info->layers_key.empty())
    add(info->layers_key);
  add({});
  return out;
}

profiler_actor::behavior_type
profiler(profiler_actor::stateful_pointer<profiler_state> self,
         profiler_options options) {
  auto& s = self->state;
  s.start(self, std::move(options));
  return {
    [&s](const measure_model& x) { return s.on_measure(x); },
    [&s](const keep_profile& x) { return s.on_keep(x); },
    [&s](const forget_profiles& x) { return s.on_forget(x); },
    [&s](const get_profiles& x) { return s.on_get(x); },
    [&s](const get_plans& x) { return s.on_get_plans(x); },
    [&s](inventory& x) { s.on_inventory(x); },
    [&s](const peer_down& x) { s.on_peer_down(x); },
    [&s](const rows_read& x) { s.on_rows(x); },
    [&s](const row_written& x) { s.on_written(x); },
    [&s](const planned& x) { s.on_planned(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
