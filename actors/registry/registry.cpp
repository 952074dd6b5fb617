// SPDX-License-Identifier: Apache-2.0
#include "actors/registry/registry_state.hpp"

#include <algorithm>
#include <iterator>
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
constexpr size_t max_changes = 1024;

/// After which what the config wants is tried again, if the disk failed.
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
  for (auto* table : {scopes_table, models_table}) // read in this order
    facts_->load(table, [table, tell = teller<registry_rows>(self)](auto rows) {
      tell({table, std::make_shared<decltype(rows)>(std::move(rows))});
    });
}

/// Reads a row. Returns false, and the actor ends, when it cannot be read.
template <class Row>
bool registry_state::read(const stored_row& x, rows<Row>& to) {
  decode_context ctx;
  auto y = decode<Row>(std::as_bytes(std::span{x.value}), ctx);
  auto name = "registry row '" + x.key + "'";
  if (!y)
    self_->quit(to_caf(std::move(y.failure()).within(name)));
  else if (y->schema > Row{}.schema)
    self_->quit(to_caf({ec::bad_config,
                        name + " is of schema " + std::to_string(y->schema)
                          + ", of a newer Millrace",
                        {}}));
  else
    return to[x.key] = {std::move(*y), x.version}, true;
  return false;
}

void registry_state::on_rows(const registry_rows& x) {
  if (!*x.rows) {
    self_->quit(to_caf(x.rows->failure()));
    return;
  }
  for (auto& row : **x.rows)
    if (!(x.table == scopes_table ? read(row, scopes_) : read(row, models_)))
      return;
  if (x.table == models_table)
    on_loaded();
}

void registry_state::on_loaded() {
  std::erase_if(models_, [&, known = scopes()](auto& x) {
    auto fine = check(x.second.row.settings, known);
    if (!fine)
      log_event(log_level::error, "registry", "row_ignored",
                {{"model", x.first}, {"error", to_string(fine.failure())}});
    return !fine;
  });
  loaded_ = true;
  // What an earlier config wanted and this one does not.
  for (auto& [model, entry] : models_)
    if (entry.row.is_default
        && std::none_of(defaults_.begin(), defaults_.end(),
                        [&model = model](auto& y) { return y.model == model; }))
      changes_.push_back({model, std::nullopt, {}});
  for (auto& settings : defaults_) {
    auto i = models_.find(settings.model);
    auto same = i != models_.end() && i->second.row.settings == settings;
    auto pin = i == models_.end() ? model_pin{} : i->second.row.pin;
    if (i == models_.end() || (i->second.row.is_default && !same))
      changes_.push_back(
        {settings.model, model_row{1, settings, true, pin}, {}});
  }
  end_pins();
  publish_if_complete();
  write_next();
}

caf::result<ack> registry_state::on_set(const set_model& x) {
  if (auto fine = check(x.settings, scopes()); !fine)
    return to_caf(fine.failure());
  if (auto fine = check_name("model", x.settings.model); !fine)
    return to_caf(fine.failure());
  auto row = latest(x.settings.model);
  if (x.instead_of && (!row || row->settings != *x.instead_of))
    return to_caf(error{ec::conflict,
                        "what is registered of model '" + x.settings.model
                          + "' has changed meanwhile: look again",
                        {}});
  return enqueue(
    {x.settings.model,
     model_row{1, x.settings, x.is_default, row ? row->pin : model_pin{}},
     {}});
}

std::optional<model_row>
registry_state::latest(const std::string& model) const {
  for (auto i = changes_.rbegin(); i != changes_.rend(); ++i)
    if (!i->of_scope && i->key == model)
      return i->row;
  auto i = models_.find(model);
  return i == models_.end() ? std::nullopt : std::optional{i->second.row};
}

caf::result<ack> registry_state::on_forget(const forget_model& x) {
  if (!models_.contains(x.model))
    return to_caf(error{
      ec::unknown_model, "model '" + x.model + "' is not registered", {}});
  return enqueue({x.model, std::nullopt, {}});
}

caf::result<ack> registry_state::on_pin(const pin_model& x) {
  if (auto groups = parse_given(x.groups); !groups)
    return to_caf(groups.failure());
  auto row = latest(x.model);
  if (!row)
    return to_caf(error{
      ec::unknown_model, "model '" + x.model + "' is not registered", {}});
  if (row->settings.replicas == 0)
    return to_caf(error{ec::conflict,
                        "model '" + x.model
                          + "' is unloaded (expected one that is served: load"
                            " it first)",
                        {}});
  row->pin = {x.groups, x.time > 0us ? wall_time() + x.time : 0us};
  return enqueue({x.model, std::move(row), {}});
}

caf::result<ack> registry_state::on_unpin(const unpin_model& x) {
  auto row = latest(x.model);
  if (!row || row->pin.groups.empty())
    return to_caf(
      error{ec::unknown_model, "model '" + x.model + "' is not pinned", {}});
  row->pin = {};
  return enqueue({x.model, std::move(row), {}});
}

std::map<std::string, scope_settings>
registry_state::scopes(const set_scope* change) const {
  auto out = default_scopes_;
  for (auto& [scope, entry] : scopes_)
    out[scope] = entry.row.settings;
  if (change != nullptr && change->settings)
    out[change->scope] = *change->settings;
  // The pool of a scope is a matter of the config alone.
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

caf::result<ack> registry_state::on_set_scope(const set_scope& x) {
  if (x.settings)
    if (auto fine = check_limits(*x.settings); !fine)
      return to_caf(std::move(fine.failure()).within(x.scope));
  std::vector<model_settings> models;
  for (auto& [model, entry] : models_)
    models.push_back(entry.row.settings);
  auto after = scopes(&x);
  for (auto& trouble : check_scaling(models, after))
    return to_caf(error{ec::bad_request, trouble.key + ": " + trouble.why, {}});
  change made{x.scope, std::nullopt, {}, true};
  if (x.settings)
    made.scope = scope_row{1, *x.settings};
  return enqueue(std::move(made));
}

caf::result<ack> registry_state::enqueue(change x) {
  if (changes_.size() >= max_changes)
    return to_caf(error{ec::overloaded, "too many changes wait for the disk",
                        microseconds{100'000}});
  // What an operator sets replaces what the config wants.
  std::erase_if(unwritten_, [&](auto& y) {
    return y.key == x.key && y.of_scope == x.of_scope;
  });
  auto promise = self_->make_response_promise<ack>();
  x.promise = promise;
  changes_.push_back(std::move(x));
  if (loaded_ && changes_.size() == 1)
    write_next();
  return promise;
}

void registry_state::write_next() {
  if (changes_.empty())
    return;
  auto& next = changes_.front();
  auto version_in = [&](auto& rows) {
    auto i = rows.find(next.key);
    return i == rows.end() ? 0 : i->second.version;
  };
  auto text = next.of_scope ? (next.scope ? pack(*next.scope) : std::string{})
              : next.row    ? pack(*next.row)
                            : std::string{};
  facts_->put(next.of_scope ? scopes_table : models_table, next.key, text,
              next.of_scope ? version_in(scopes_) : version_in(models_),
              [tell = teller<registry_written>(self_)](auto version) {
                tell({std::make_shared<decltype(version)>(std::move(version))});
              });
}

void registry_state::take_written(const change& x, uint64_t version) {
  if (x.of_scope) {
    log_event(
      log_level::info, "registry", "scope_changed",
      {{"scope", x.key},
       {"policy", x.scope ? x.scope->settings.policy : "as configured"}});
    if (x.scope)
      scopes_[x.key] = {*x.scope, version};
    else
      scopes_.erase(x.key);
    return;
  }
  auto i = models_.find(x.key);
  log_event(log_level::info, "registry", "changed",
            {{"model", x.key},
             {"replicas", x.row ? x.row->settings.replicas : 0},
             {"what", change_text(i == models_.end() ? nullptr : &i->second.row,
                                  x.row)}});
  if (x.row)
    models_[x.key] = {*x.row, version};
  else
    models_.erase(x.key);
}

void registry_state::on_written(const registry_written& x) {
  auto written = std::move(changes_.front());
  changes_.pop_front();
  if (*x.version) {
    take_written(written, **x.version);
    written.promise.deliver(ack{}); // a default has no sender
  } else {
    log_event(log_level::error, "registry", "not_written",
              {{"error", to_string(x.version->failure())}});
    if (written.promise.pending()) {
      written.promise.deliver(to_caf(x.version->failure()));
    } else {
      unwritten_.push_back(std::move(written));
      if (unwritten_.size() == 1)
        self_->delayed_send(self_, retry_pause, tick::value);
    }
  }
  await_end_of_pins();
  publish_if_complete();
  write_next();
}

microseconds registry_state::wall_time() const {
  return wall_clock_ ? wall_clock_()
                     : to_us(self_->clock().now().time_since_epoch());
}

void registry_state::await_end_of_pins() {
  for (auto& [model, entry] : models_)
    if (auto left = entry.row.pin.until - wall_time(); left > 0us)
      pins_end_.set(self_, self_->clock().now() + left);
}

void registry_state::end_pins() {
  for (auto& [model, entry] : models_) {
    auto until = entry.row.pin.until;
    if (until == 0us || until > wall_time())
      continue;
    auto row = latest(model);
    if (!row || row->pin.until != until)
      continue;
    row->pin = {};
    changes_.push_back({model, std::move(row), {}});
  }
  await_end_of_pins();
}

void registry_state::on_tick() {
  auto idle = changes_.empty();
  if (pins_end_.rings(self_->clock().now()))
    end_pins();
  std::move(unwritten_.begin(), unwritten_.end(), std::back_inserter(changes_));
  unwritten_.clear();
  if (idle)
    write_next();
}

/// Not before what the config wants was tried: what is not in the first list
/// would be taken down.
void registry_state::publish_if_complete() {
  if (!published_ && !changes_.empty())
    return;
  published_ = true;
  registered x;
  for (auto& [name, entry] : models_)
    x.models.push_back(entry.row.settings);
  for (auto& [name, entry] : models_)
    if (!entry.row.pin.groups.empty())
      x.pins[name] = entry.row.pin.groups;
  x.scopes = scopes();
  self_->send(cluster_state_, std::move(x));
}

caf::result<model_list> registry_state::on_get() {
  auto promise = self_->make_response_promise<model_list>();
  self_->request(placement_, seconds{2}, get_models{})
    .then(
      [this, promise](model_list& x) mutable {
        for (auto& [name, entry] : models_) {
          auto& settings = entry.row.settings;
          auto known = std::find_if(
            x.models.begin(), x.models.end(),
            [&name = name](auto& y) { return y.settings.model == name; });
          if (known != x.models.end()) // the placement's are a moment old
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
    [&s](const registry_rows& x) { s.on_rows(x); },
    [&s](const registry_written& x) { s.on_written(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
