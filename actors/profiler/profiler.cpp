// SPDX-License-Identifier: Apache-2.0
#include "actors/profiler/profiler_state.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "models/profile_remarks.hpp"
#include "runtime/limits.hpp"
#include "runtime/log.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "transport/bus.hpp"
#include "transport/codec.hpp"

namespace millrace {

namespace {

constexpr auto profiles_table = "profiles";

/// For a node to measure a large model.
constexpr auto measure_timeout = 30min;

/// That wait to be on disk, and that are there: far more than anybody has
/// models.
constexpr size_t most_changes = 64;
constexpr size_t most_profiles = 10'000;

/// It, with what was known of other devices.
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
  options_.facts->load(profiles_table,
                       [tell = teller<stored_profiles>(self)](auto x) {
                         tell({std::make_shared<decltype(x)>(std::move(x))});
                       });
  self->delayed_send(self, options_.period, tick::value);
}

void profiler_state::on_rows(const stored_profiles& x) {
  if (!*x.rows)
    return self_->quit(to_caf(x.rows->failure()));
  for (auto& row : **x.rows)
    if (auto taken = take_row(row); !taken) {
      auto slash = row.key.find('/');
      key of{row.key.substr(0, slash), row.key.substr(slash + 1)};
      (of.first.empty() ? live_version_ : unread_[of]) = row.version;
      log_event(log_level::error, "profiler", "not_read",
                {{"row", row.key}, {"error", to_string(taken.failure())}});
    }
  loaded_ = true;
  if (options_.known)
    for (auto& profile : options_.known->all())
      if (profiles_.size() < most_profiles)
        profiles_.try_emplace(key_of(profile), entry{profile, 0});
  for (auto& [of, known] : profiles_)
    costs_due_.insert(of.first);
  publish_costs();
  write_next();
}

/// Errors: bad_request for what is no row, bad_config for one that another
/// Millrace has written. It stays as it is until that is measured again.
result<void> profiler_state::take_row(const stored_row& x) {
  decode_context ctx;
  auto row = decode<profile_row>(std::as_bytes(std::span{x.value}), ctx);
  if (!row)
    return row.failure();
  if (row->schema != profile_row{}.schema)
    return error{ec::bad_config,
                 "is of schema " + std::to_string(row->schema) + ", expected "
                   + std::to_string(profile_row{}.schema),
                 {}};
  if (row->what.model.empty()) {
    live_version_ = x.version;
    take_averages(row->live);
    return {};
  }
  auto what = unpack(row->what);
  if (!what)
    return what.failure();
  auto at = key_of(*what);
  profiles_[at] = {std::move(*what), x.version};
  return {};
}

profiler_state::key profiler_state::key_of(const profile& x) {
  return {x.model, x.layers};
}

// -- measuring ----------------------------------------------------------------

result<profiler_state::site>
profiler_state::site_for(const measure_model& x) const {
  model_settings asked;
  asked.model = x.model;
  asked.version = x.version;
  auto version = resolve_version(view_, asked);
  if (version == 0)
    return error{ec::unknown_model,
                 "no node has a bundle of model '" + x.model + "'"
                   + (x.version.empty() ? "" : " version '" + x.version + "'"),
                 {}};
  auto fits = false;
  std::optional<site> shared; // the first device that has replicas
  for (auto& [name, node] : view_.nodes)
    for (auto& d : node.devices) {
      auto right = x.device.empty() || selects_device(x.device, name, d);
      if (!right || node.draining
          || bundle_on(node, x.model, version) == nullptr)
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
  auto where = x.device.empty() ? "no device" : "no device " + x.device;
  return error{ec::unavailable,
               fits ? where + " is free: another measurement runs on each"
                    : where + " is on a ready node that has the bundle",
               {}};
}

caf::result<ack> profiler_state::on_measure(const measure_model& x) {
  auto at = site_for(x);
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
            {{"model", x.model},
             {"version", at->version},
             {"node", at->node->node.name},
             {"device", at->device->id}});
  self_
    ->request(caf::actor_cast<supervisor_actor>(node), measure_timeout,
              measure{x.model, at->version, at->device->id, x.rows, x.extent,
                      x.threshold})
    .then(
      [this, where, number, model = x.model](measured& y) {
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

/// Who waits for a measurement, for the last time; nobody does where its node
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

caf::result<ack> profiler_state::on_keep(const keep_profile& x) {
  auto what = unpack(x.what);
  if (!what)
    return to_caf(what.failure());
  auto promise = self_->make_response_promise<ack>();
  auto remarks = remarks_on(*what);
  for (auto& y : remarks_here(*what))
    remarks.push_back(std::move(y));
  keep(std::move(*what), promise, std::move(remarks));
  return promise;
}

/// Why nothing in this cluster may ever look at a profile.
std::vector<std::string> profiler_state::remarks_here(const profile& x) const {
  std::vector<std::string> out;
  std::set<std::string> kinds;
  std::map<std::string, size_t> layers; // of each kind
  for (auto& [name, node] : view_.nodes) {
    for (auto& d : node.devices)
      kinds.insert(d.kind);
    for (auto& m : node.models)
      if (m.model == x.model)
        layers[m.layers_key] = m.layer_bytes.size();
  }
  for (auto& kind : devices_in(x)) {
    auto of = layers_in(x, kind);
    if (!kinds.contains(kind))
      out.push_back(
        "no device here is of kind " + shown(kind)
        + (kinds.empty()
             ? std::string{}
             : " (there is " + joined(kinds, ", ", std::identity{}) + ")"));
    auto fits = [&](auto& y) {
      return (x.layers.empty() || x.layers == y.first)
             && (of == 0 || y.second == of);
    };
    if ((x.layers.empty() ? !layers.empty() : layers.contains(x.layers))
        && std::none_of(layers.begin(), layers.end(), fits))
      out.push_back("it is of " + std::to_string(of) + " layers on "
                    + shown(kind) + ", and no bundle here has so many");
  }
  if (layers.empty())
    out.push_back("no node here has a bundle of " + shown(x.model));
  else if (!x.layers.empty() && !layers.contains(x.layers))
    out.push_back("no bundle here has these layers, "
                  + millrace::first_of(x.layers, 12));
  return out;
}

caf::result<ack> profiler_state::on_forget(const forget_profiles& x) {
  if (first_of(x.model) == profiles_.end())
    return to_caf(
      {ec::unknown_model, "nothing was measured of " + shown(x.model), {}});
  if (changes_.size() >= most_changes)
    return to_caf({ec::overloaded, "so many changes wait for the disk", {}});
  auto promise = self_->make_response_promise<ack>();
  enqueue({{x.model, {}}, std::nullopt, promise});
  return promise;
}

// -- on disk, one after the other ---------------------------------------------

void profiler_state::keep(profile x, ack_promise promise,
                          std::vector<std::string> remarks) {
  auto of = key_of(x);
  if (changes_.size() >= most_changes
      || (profiles_.size() >= most_profiles && !profiles_.contains(of))) {
    promise.deliver(
      to_caf({ec::overloaded, "so many profiles cannot be kept", {}}));
    return;
  }
  enqueue({std::move(of), std::move(x), promise, std::move(remarks)});
}

void profiler_state::enqueue(change x) {
  changes_.push_back(std::move(x));
  if (loaded_ && changes_.size() == 1)
    write_next();
}

/// The first row of a model, of whatever layers.
std::map<profiler_state::key, profiler_state::entry>::iterator
profiler_state::first_of(const std::string& model) {
  auto i = profiles_.lower_bound({model, {}});
  return i != profiles_.end() && i->first.first == model ? i : profiles_.end();
}

/// Of its row on disk; 0 where it has none.
uint64_t profiler_state::version_of(const key& x) const {
  if (auto i = profiles_.find(x); i != profiles_.end())
    return i->second.version;
  auto i = unread_.find(x);
  return i == unread_.end() ? 0 : i->second;
}

void profiler_state::write_next() {
  if (changes_.empty())
    return;
  auto& [of, what, promise, remarks] = changes_.front();
  profile_row row;
  uint64_t version = 0;
  if (of.first.empty()) {
    version = live_version_;
    for (auto& [at, x] : live_)
      row.live.push_back(x.cost);
  } else {
    auto known = what ? profiles_.find(of) : first_of(of.first);
    if (known != profiles_.end())
      of = known->first;
    version = version_of(of);
    if (what && known != profiles_.end())
      *what = merged(std::move(*what), known->second.what);
    if (what)
      row.what = pack(*what);
    if (auto fine = what ? unpack(row.what) : profile{}; !fine) {
      // What was known beside it makes it more than can be read again.
      promise.deliver(to_caf(fine.failure()));
      changes_.pop_front();
      return write_next();
    }
  }
  auto is_gone = !what && !of.first.empty();
  encoder out{timestamp{}, nullptr};
  out.put(row);
  options_.facts->put(profiles_table, of.first + "/" + of.second,
                      is_gone ? std::string{}
                              : std::string{out.take_body().text()},
                      version, [tell = teller<profile_written>(self_)](auto y) {
                        tell({std::make_shared<decltype(y)>(std::move(y))});
                      });
}

void profiler_state::on_written(const profile_written& x) {
  auto& written = changes_.front();
  auto& of = written.of;
  auto& what = written.what;
  auto& promise = written.promise;
  auto is_last = true;
  if (*x.version && of.first.empty()) {
    live_version_ = **x.version;
  } else if (*x.version) {
    costs_due_.insert(of.first);
    std::erase_if(plans_, [&](auto& y) { return y.first.first == of; });
    unread_.erase(of);
    if (what) {
      profiles_[of] = {std::move(*what), **x.version};
    } else {
      profiles_.erase(of);
      live_changed_ |=
        std::erase_if(live_,
                      [&](auto& y) { return y.second.cost.model == of.first; })
        > 0;
      is_last = first_of(of.first) == profiles_.end();
    }
    if (is_last)
      promise.deliver(ack{std::move(written.remarks)});
  } else {
    log_event(log_level::error, "profiler", "not_written",
              {{"error", to_string(x.version->failure())}});
    if (!of.first.empty())
      promise.deliver(to_caf(x.version->failure()));
  }
  if (is_last)
    changes_.pop_front();
  publish_costs();
  write_next();
}

// -- what is known ------------------------------------------------------------

profile_list profiler_state::on_get(const get_profiles& x) const {
  profile_list out;
  for (auto& [at, y] : profiles_)
    if (x.model.empty() || at.first == x.model)
      out.profiles.push_back(pack(y.what));
  for (auto& [at, y] : live_)
    if (x.model.empty() || y.cost.model == x.model)
      out.live.push_back(y.cost);
  return out;
}

/// What nodes say of a version; null when none has it.
const model_info* profiler_state::info_of(const std::string& model,
                                          const std::string& version) const {
  model_settings asked;
  asked.model = model;
  asked.version = version;
  return bundle_of(view_, model, resolve_version(view_, asked));
}

/// That of a version's layers, then the one that is said to be of any.
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
    [](const peer_up&) { /* its inventory says more */ },
    [&s](const peer_down& x) { s.on_peer_down(x); },
    [&s](const stored_profiles& x) { s.on_rows(x); },
    [&s](const profile_written& x) { s.on_written(x); },
    [&s](const planned& x) { s.on_planned(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
