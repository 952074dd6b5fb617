// SPDX-License-Identifier: Apache-2.0
#include "actors/registry/registry_state.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "actors/policies/registry.hpp"
#include "runtime/limits.hpp"
#include "runtime/log.hpp"
#include "runtime/name.hpp"
#include "transport/codec.hpp"
#include "transport/messages/wanted_cuts.hpp"

namespace millrace {

namespace {

constexpr auto models_table = "models";
constexpr size_t max_changes = 1024;

/// After which what the config wants is tried again, if the disk failed.
constexpr microseconds retry_pause = 1s;

std::string pack(const model_row& x) {
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
  for (auto& trouble : check_scaling({x}, scopes)) {
    auto dot = trouble.key.find('.'); // behind models[0]
    return error{
      ec::bad_request, trouble.key.substr(dot + 1) + ": " + trouble.why, {}};
  }
  return {};
}

/// What an event says of a change: what was there, what is.
std::string change_text(const model_row* was,
                        const std::optional<model_row>& is) {
  if (!is)
    return "forgotten";
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
  placement_actor placement, registered defaults) {
  self_ = self;
  facts_ = std::move(facts);
  cluster_state_ = std::move(cluster_state);
  placement_ = std::move(placement);
  defaults_ = std::move(defaults.models);
  scopes_ = std::move(defaults.scopes);
  set_common_handlers(self);
  facts_->load(models_table, [tell = teller<registry_rows>(self)](auto rows) {
    tell({std::make_shared<decltype(rows)>(std::move(rows))});
  });
}

void registry_state::on_rows(const registry_rows& x) {
  if (!*x.rows) {
    self_->quit(to_caf(x.rows->failure()));
    return;
  }
  for (auto& row : **x.rows) {
    decode_context ctx;
    auto y = decode<model_row>(std::as_bytes(std::span{row.value}), ctx);
    if (!y) {
      self_->quit(to_caf(
        std::move(y.failure()).within("registry row '" + row.key + "'")));
      return;
    }
    if (y->schema > model_row{}.schema) {
      self_->quit(
        to_caf({ec::bad_config,
                "registry row '" + row.key + "' is of schema "
                  + std::to_string(y->schema) + ", of a newer Millrace",
                {}}));
      return;
    }
    if (auto fine = check(y->settings, scopes_); !fine) {
      log_event(log_level::error, "registry", "row_ignored",
                {{"model", row.key}, {"error", to_string(fine.failure())}});
      continue;
    }
    models_[row.key] = {std::move(*y), row.version};
  }
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
    if (i == models_.end() || (i->second.row.is_default && !same))
      changes_.push_back({settings.model, model_row{1, settings, true}, {}});
  }
  publish_if_complete();
  write_next();
}

caf::result<ack> registry_state::on_set(const set_model& x) {
  if (auto fine = check(x.settings, scopes_); !fine)
    return to_caf(fine.failure());
  if (auto fine = check_name("model", x.settings.model); !fine)
    return to_caf(fine.failure());
  if (x.instead_of && latest(x.settings.model) != x.instead_of)
    return to_caf(error{ec::conflict,
                        "what is registered of model '" + x.settings.model
                          + "' has changed meanwhile: look again",
                        {}});
  return enqueue(x.settings.model, model_row{1, x.settings, x.is_default});
}

std::optional<model_settings>
registry_state::latest(const std::string& model) const {
  for (auto i = changes_.rbegin(); i != changes_.rend(); ++i)
    if (i->model == model)
      return i->row ? std::optional{i->row->settings} : std::nullopt;
  auto i = models_.find(model);
  return i == models_.end() ? std::nullopt
                            : std::optional{i->second.row.settings};
}

caf::result<ack> registry_state::on_forget(const forget_model& x) {
  if (!models_.contains(x.model))
    return to_caf(error{
      ec::unknown_model, "model '" + x.model + "' is not registered", {}});
  return enqueue(x.model, std::nullopt);
}

caf::result<ack> registry_state::enqueue(std::string model,
                                         std::optional<model_row> row) {
  if (changes_.size() >= max_changes)
    return to_caf(error{ec::overloaded, "too many changes wait for the disk",
                        microseconds{100'000}});
  // What an operator says replaces what the config wants.
  std::erase_if(unwritten_, [&](auto& x) { return x.model == model; });
  auto promise = self_->make_response_promise<ack>();
  changes_.push_back({std::move(model), std::move(row), promise});
  if (loaded_ && changes_.size() == 1)
    write_next();
  return promise;
}

void registry_state::write_next() {
  if (changes_.empty())
    return;
  auto& next = changes_.front();
  auto i = models_.find(next.model);
  facts_->put(models_table, next.model,
              next.row ? pack(*next.row) : std::string{},
              i == models_.end() ? 0 : i->second.version,
              [tell = teller<registry_written>(self_)](auto version) {
                tell({std::make_shared<decltype(version)>(std::move(version))});
              });
}

void registry_state::on_written(const registry_written& x) {
  auto done_change = std::move(changes_.front());
  changes_.pop_front();
  auto i = models_.find(done_change.model);
  if (*x.version) {
    log_event(
      log_level::info, "registry", "changed",
      {{"model", done_change.model},
       {"replicas", done_change.row ? done_change.row->settings.replicas : 0},
       {"what", change_text(i == models_.end() ? nullptr : &i->second.row,
                            done_change.row)}});
    if (done_change.row)
      models_[done_change.model] = {*done_change.row, **x.version};
    else
      models_.erase(done_change.model);
    done_change.promise.deliver(ack{}); // to nobody, for a default
  } else {
    log_event(log_level::error, "registry", "not_written",
              {{"error", to_string(x.version->failure())}});
    if (done_change.promise.pending()) {
      done_change.promise.deliver(to_caf(x.version->failure()));
    } else {
      unwritten_.push_back(std::move(done_change));
      if (unwritten_.size() == 1)
        self_->delayed_send(self_, retry_pause, tick::value);
    }
  }
  publish_if_complete();
  write_next();
}

void registry_state::on_tick() {
  auto idle = changes_.empty();
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
  x.scopes = scopes_;
  self_->send(cluster_state_, std::move(x));
}

caf::result<model_list> registry_state::on_get() {
  auto promise = self_->make_response_promise<model_list>();
  self_->request(placement_, seconds{2}, get_models{})
    .then(
      [this, promise](model_list& x) mutable {
        for (auto& [name, entry] : models_) {
          auto known = std::any_of(
            x.models.begin(), x.models.end(),
            [&name = name](auto& y) { return y.settings.model == name; });
          if (!known)
            x.models.push_back({entry.row.settings, entry.row.settings.replicas,
                                0, 0, "not placed yet"});
        }
        promise.deliver(std::move(x));
      },
      [promise](caf::error& x) mutable { promise.deliver(std::move(x)); });
  return promise;
}

registry_actor::behavior_type
registry(registry_actor::stateful_pointer<registry_state> self,
         std::shared_ptr<store> facts, cluster_state_actor cluster_state,
         placement_actor placement, registered defaults) {
  auto& s = self->state;
  s.start(self, std::move(facts), std::move(cluster_state),
          std::move(placement), std::move(defaults));
  return {
    [&s](const set_model& x) { return s.on_set(x); },
    [&s](const forget_model& x) { return s.on_forget(x); },
    [&s](get_models) { return s.on_get(); },
    [&s](const registry_rows& x) { s.on_rows(x); },
    [&s](const registry_written& x) { s.on_written(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
