// SPDX-License-Identifier: Apache-2.0
#include "actors/registry/registry_state.hpp"

#include <algorithm>
#include <utility>

#include "actors/policies/registry.hpp"
#include "actors/policies/scale/given.hpp"
#include "runtime/limits.hpp"
#include "runtime/log.hpp"
#include "runtime/name.hpp"
#include "transport/codec.hpp"
#include "transport/messages/wanted_cuts.hpp"

namespace millrace {

namespace {

constexpr auto models_table = "models";
constexpr auto scopes_table = "scopes";
constexpr size_t changes_max = 1024;

/// Pause before a failed write of config settings is retried.
constexpr microseconds retry_pause = 1s;

template <class Row>
std::string pack(const Row& x) {
  encoder out{timestamp{}, nullptr};
  out.put(x);
  return std::string{out.take_body().text()};
}

/// Errors: bad_request.
result<void> check(const model_settings& x,
                   const std::map<std::string, scope_settings>& scopes) {
  if (auto fine = check_limits(x); !fine)
    return fine;
  if (auto fine = check_cuts(wanted_cuts(x)); !fine)
    return fine;
  if (auto fine = check_batch(x.policy); !fine)
    return fine;
  for (auto& trouble : check_scaling({x}, scopes)) {
    auto dot = trouble.key.find('.'); // behind models[0]
    return error{
      ec::bad_request, trouble.key.substr(dot + 1) + ": " + trouble.why, {}};
  }
  return {};
}

/// The text of a change for log events: old and new settings.
std::string change_text(const model_row* was,
                        const std::optional<model_row>& is) {
  if (!is)
    return "forgotten";
  if (was != nullptr && was->pin != is->pin)
    return is->pin.groups.empty() ? "unpinned" : "pinned: " + is->pin.groups;
  if (was != nullptr)
    return differences(was->settings, is->settings);
  model_settings plain;
  plain.model = is->settings.model;
  auto unlike = differences(plain, is->settings);
  return "new" + (unlike.empty() ? "" : ": " + unlike);
}

} // namespace

void registry_state::start(
  registry_actor::stateful_pointer<registry_state> self,
  std::shared_ptr<store> facts, cluster_state_actor cluster_state,
  placement_actor placement, registered defaults,
  std::function<microseconds()> wall_clock) {
  self_ = self;
  facts_ = std::move(facts);
  cluster_state_ = std::move(cluster_state);
  placement_ = std::move(placement);
  wall_clock_ = std::move(wall_clock);
  defaults_ = std::move(defaults.models);
  default_scopes_ = std::move(defaults.scopes);
  set_common_handlers(self);
  table_ = {facts_, changes_max, row_of,
            [tell = teller<row_written>(self)](auto version) {
              tell({std::make_shared<decltype(version)>(std::move(version))});
            }};
  for (auto* table : {scopes_table, models_table}) // read in this order
    facts_->load(table, [table, tell = teller<rows_read>(self)](auto rows) {
      tell({table, std::make_shared<decltype(rows)>(std::move(rows))});
    });
}

/// Reads a row. Returns false, and the actor ends, when it cannot be read.
template <class Row>
bool registry_state::read(const stored_row& row, rows<Row>& to) {
  decode_context ctx;
  auto y = decode<Row>(std::as_bytes(std::span{row.value}), ctx);
  auto name = "registry row '" + row.key + "'";
  if (!y)
    self_->quit(to_caf(std::move(y.failure()).within(name)));
  else if (y->schema > Row{}.schema)
    self_->quit(to_caf({ec::bad_config,
                        name + " is of schema " + std::to_string(y->schema)
                          + ", of a newer Millrace",
                        {}}));
  else
    return to[row.key] = std::move(*y), true;
  return false;
}

void registry_state::on_rows(const rows_read& message) {
  if (!*message.rows) {
    self_->quit(to_caf(message.rows->failure()));
    return;
  }
  for (auto& row : **message.rows) {
    table_.on_read(message.table, row);
    if (!(message.table == scopes_table ? read(row, scopes_)
                                        : read(row, models_)))
      return;
  }
  if (message.table == models_table)
    on_loaded();
}

void registry_state::on_loaded() {
  std::erase_if(models_, [&, known = scopes()](auto& x) {
    auto fine = check(x.second.settings, known);
    if (!fine)
      log_event(log_level::error, "registry", "row_ignored",
                {{"model", x.first}, {"error", to_string(fine.failure())}});
    return !fine;
  });
  // Removes models of an earlier config that this config lacks.
  for (auto& [model, row] : models_)
    if (row.is_default
        && std::none_of(defaults_.begin(), defaults_.end(),
                        [&model = model](auto& y) { return y.model == model; }))
      table_.push({model, std::nullopt, {}});
  for (auto& settings : defaults_) {
    auto i = models_.find(settings.model);
    auto same = i != models_.end() && i->second.settings == settings;
    auto pin = i == models_.end() ? model_pin{} : i->second.pin;
    if (i == models_.end() || (i->second.is_default && !same))
      table_.push({settings.model, model_row{1, settings, true, pin}, {}});
  }
  end_pins();
  publish_if_complete();
  table_.start();
}

caf::result<ack> registry_state::on_set(const set_model& request) {
  if (auto fine = check(request.settings, scopes()); !fine)
    return to_caf(fine.failure());
  if (auto fine = check_name("model", request.settings.model); !fine)
    return to_caf(fine.failure());
  auto row = latest(request.settings.model);
  if (request.instead_of && (!row || row->settings != *request.instead_of))
    return to_caf(error{ec::conflict,
                        "the settings of model '" + request.settings.model
                          + "' have changed meanwhile: read them again",
                        {}});
  return enqueue({request.settings.model,
                  model_row{1, request.settings, request.is_default,
                            row ? row->pin : model_pin{}},
                  {}});
}

std::optional<model_row>
registry_state::latest(const std::string& model) const {
  auto& pending = table_.pending();
  for (auto i = pending.rbegin(); i != pending.rend(); ++i)
    if (!i->of_scope && i->key == model)
      return i->row;
  auto i = models_.find(model);
  return i == models_.end() ? std::nullopt : std::optional{i->second};
}

caf::result<ack> registry_state::on_forget(const forget_model& request) {
  if (!models_.contains(request.model))
    return to_caf(error{ec::unknown_model,
                        "model '" + request.model + "' is not registered",
                        {}});
  return enqueue({request.model, std::nullopt, {}});
}

caf::result<ack> registry_state::on_pin(const pin_model& request) {
  if (auto groups = parse_given(request.groups); !groups)
    return to_caf(groups.failure());
  auto row = latest(request.model);
  if (!row)
    return to_caf(error{ec::unknown_model,
                        "model '" + request.model + "' is not registered",
                        {}});
  if (row->settings.replicas == 0)
    return to_caf(error{ec::conflict,
                        "model '" + request.model
                          + "' is unloaded (expected one that is served: load"
                            " it first)",
                        {}});
  row->pin = {request.groups,
              request.time > 0us ? wall_time() + request.time : 0us};
  return enqueue({request.model, std::move(row), {}});
}

caf::result<ack> registry_state::on_unpin(const unpin_model& request) {
  auto row = latest(request.model);
  if (!row || row->pin.groups.empty())
    return to_caf(error{
      ec::unknown_model, "model '" + request.model + "' is not pinned", {}});
  row->pin = {};
  return enqueue({request.model, std::move(row), {}});
}

std::map<std::string, scope_settings>
registry_state::scopes(const set_scope* change) const {
  auto out = default_scopes_;
  for (auto& [scope, row] : scopes_)
    out[scope] = row.settings;
  if (change != nullptr && change->settings)
    out[change->scope] = *change->settings;
  // Only the config sets the pool of a scope.
  for (auto& [scope, x] : out) {
    auto i = default_scopes_.find(scope);
    x.pool = i == default_scopes_.end() ? std::string{} : i->second.pool;
  }
  if (change == nullptr || change->settings)
    return out;
  if (auto i = default_scopes_.find(change->scope); i != default_scopes_.end())
    out[change->scope] = i->second;
  else
    out.erase(change->scope);
  return out;
}

caf::result<ack> registry_state::on_set_scope(const set_scope& request) {
  if (request.settings)
    if (auto fine = check_limits(*request.settings); !fine)
      return to_caf(std::move(fine.failure()).within(request.scope));
  std::vector<model_settings> models;
  for (auto& [model, row] : models_)
    models.push_back(row.settings);
  auto after = scopes(&request);
  for (auto& trouble : check_scaling(models, after))
    return to_caf(error{ec::bad_request, trouble.key + ": " + trouble.why, {}});
  change made{request.scope, std::nullopt, {}, true};
  if (request.settings)
    made.scope = scope_row{1, *request.settings};
  return enqueue(std::move(made));
}

caf::result<ack> registry_state::enqueue(change wanted) {
  if (table_.is_full())
    return to_caf(error{ec::overloaded, "too many changes wait for the disk",
                        microseconds{100'000}});
  // Settings of an operator replace those of the config.
  std::erase_if(unwritten_, [&](auto& y) {
    return y.key == wanted.key && y.of_scope == wanted.of_scope;
  });
  auto promise = self_->make_response_promise<ack>();
  wanted.promise = promise;
  table_.push(std::move(wanted));
  return promise;
}

std::optional<row_write> registry_state::row_of(const change& wanted) {
  if (wanted.of_scope)
    return row_write{scopes_table, wanted.key,
                     wanted.scope ? pack(*wanted.scope) : ""};
  return row_write{models_table, wanted.key,
                   wanted.row ? pack(*wanted.row) : ""};
}

void registry_state::take_written(const change& wanted) {
  if (wanted.of_scope) {
    log_event(log_level::info, "registry", "scope_changed",
              {{"scope", wanted.key},
               {"policy", wanted.scope ? wanted.scope->settings.policy
                                       : "as configured"}});
    if (wanted.scope)
      scopes_[wanted.key] = *wanted.scope;
    else
      scopes_.erase(wanted.key);
    return;
  }
  auto i = models_.find(wanted.key);
  log_event(log_level::info, "registry", "changed",
            {{"model", wanted.key},
             {"replicas", wanted.row ? wanted.row->settings.replicas : 0},
             {"what", change_text(i == models_.end() ? nullptr : &i->second,
                                  wanted.row)}});
  if (wanted.row)
    models_[wanted.key] = *wanted.row;
  else
    models_.erase(wanted.key);
}

void registry_state::on_written(const row_written& message) {
  auto written = table_.finish(*message.version);
  if (*message.version) {
    take_written(written);
    written.promise.deliver(ack{}); // a default has no sender
  } else {
    log_event(log_level::error, "registry", "not_written",
              {{"error", to_string(message.version->failure())}});
    if (written.promise.pending()) {
      written.promise.deliver(to_caf(message.version->failure()));
    } else {
      unwritten_.push_back(std::move(written));
      if (unwritten_.size() == 1)
        self_->delayed_send(self_, retry_pause, tick::value);
    }
  }
  await_end_of_pins();
  publish_if_complete();
  table_.go_on();
}

microseconds registry_state::wall_time() const {
  return wall_clock_ ? wall_clock_()
                     : to_us(self_->clock().now().time_since_epoch());
}

void registry_state::await_end_of_pins() {
  for (auto& [model, row] : models_)
    if (auto left = row.pin.until - wall_time(); left > 0us)
      pins_end_.set(self_, self_->clock().now() + left);
}

void registry_state::end_pins() {
  for (auto& [model, row] : models_) {
    auto until = row.pin.until;
    if (until == 0us || until > wall_time())
      continue;
    auto unpinned = latest(model);
    if (!unpinned || unpinned->pin.until != until)
      continue;
    unpinned->pin = {};
    table_.push({model, std::move(unpinned), {}});
  }
  await_end_of_pins();
}

void registry_state::on_tick() {
  if (pins_end_.rings(self_->clock().now()))
    end_pins();
  for (auto& again : std::exchange(unwritten_, {}))
    table_.push(std::move(again));
}

/// Waits until the settings of the config were tried: a model that is missing
/// in the first list would be unloaded.
void registry_state::publish_if_complete() {
  if (!published_ && !table_.pending().empty())
    return;
  published_ = true;
  registered x;
  for (auto& [name, row] : models_)
    x.models.push_back(row.settings);
  for (auto& [name, row] : models_)
    if (!row.pin.groups.empty())
      x.pins[name] = row.pin.groups;
  x.scopes = scopes();
  self_->send(cluster_state_, std::move(x));
}

caf::result<model_list> registry_state::on_get() {
  auto promise = self_->make_response_promise<model_list>();
  self_->request(placement_, seconds{2}, get_models{})
    .then(
      [this, promise](model_list& x) mutable {
        for (auto& [name, row] : models_) {
          auto& settings = row.settings;
          auto known = std::find_if(
            x.models.begin(), x.models.end(),
            [&name = name](auto& y) { return y.settings.model == name; });
          // Registry settings are newer than the placement's.
          if (known != x.models.end())
            known->settings = settings;
          else
            x.models.push_back(
              {settings, settings.replicas, 0, 0, "not placed yet"});
        }
        promise.deliver(std::move(x));
      },
      [promise](caf::error& x) mutable { promise.deliver(std::move(x)); });
  return promise;
}

registry_actor::behavior_type
registry(registry_actor::stateful_pointer<registry_state> self,
         std::shared_ptr<store> facts, cluster_state_actor cluster_state,
         placement_actor placement, registered defaults,
         std::function<microseconds()> wall_clock) {
  auto& s = self->state;
  s.start(self, std::move(facts), std::move(cluster_state),
          std::move(placement), std::move(defaults), std::move(wall_clock));
  return {
    [&s](const set_model& x) { return s.on_set(x); },
    [&s](const forget_model& x) { return s.on_forget(x); },
    [&s](const pin_model& x) { return s.on_pin(x); },
    [&s](const unpin_model& x) { return s.on_unpin(x); },
    [&s](const set_scope& x) { return s.on_set_scope(x); },
    [&s](get_models) { return s.on_get(); },
    [&s](const rows_read& x) { s.on_rows(x); },
    [&s](const row_written& x) { s.on_written(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
