// SPDX-License-Identifier: Apache-2.0
#include "actors/executor/executor_state.hpp"

#include <algorithm>

#include "runtime/log.hpp"

namespace millrace {

namespace {

/// Pauses between attempts to open a device; each is six times the one before,
/// because an attempt blocks the executor.
constexpr nanoseconds made_again_first = 10s;
constexpr nanoseconds made_again_last = 1h;

/// A device counts as hung when no batch ends for this time after the deadlines
/// of its running batches.
constexpr auto stands_still_after = 1min;

} // namespace

template <class T>
void completion_sender::tell(T message) {
  if (auto to = caf::actor_cast<caf::strong_actor_ptr>(to_))
    to->enqueue(nullptr, caf::message_id{},
                caf::make_message(std::move(message)), host_);
}

void completion_sender::on_loaded(instance_id instance,
                                  result<load_report> report) {
  tell(device_loaded{instance,
                     std::make_shared<result<load_report>>(std::move(report))});
}

void completion_sender::on_lost(instance_id instance, error why) {
  tell(device_lost{instance, std::make_shared<const error>(std::move(why))});
}

void completion_sender::on_executed(execution_report report) {
  tell(std::move(report));
}

void completion_sender::on_usable(result<void> outcome) {
  tell(device_usable{
    outcome ? nullptr
            : std::make_shared<const error>(std::move(outcome.failure()))});
}

void completion_sender::on_arrival(instance_id instance,
                                   const result<void>& there) {
  tell(weights_arrived{instance,
                       there ? nullptr
                             : std::make_shared<const error>(there.failure())});
}

void executor_state::start(
  executor_actor::stateful_pointer<executor_state> self, device_info info,
  device_factory make, supervisor_actor owner, caf::execution_unit* host,
  std::shared_ptr<metrics> counts, std::shared_ptr<span_recorder> spans) {
  self_ = self;
  supervisor_ = std::move(owner);
  spans_ = std::move(spans);
  set_common_handlers(self);
  self->set_down_handler([this](const caf::down_msg& x) {
    auto i = std::find_if(owners_.begin(), owners_.end(), [&](auto& entry) {
      return entry.second->id() == x.source.id();
    });
    if (i != owners_.end())
      forget(i->first);
  });
  listener_ = std::make_shared<completion_sender>(
    caf::actor_cast<caf::weak_actor_ptr>(self->ctrl()), host);
  make_ = std::move(make);
  info_ = std::move(info);
  queue_.emplace(info_.lanes, info_.sharing);
  busy_seconds_.emplace(counts->device_busy_seconds(info_.id));
  memory_bytes_.emplace(counts->device_memory_bytes(info_.id));
  counts->device_memory_limit_bytes(info_.id).set(
    static_cast<double>(info_.memory.value));
  make_device();
}

/// Opens the device. If that fails, the executor is out of service, as when a
/// device fails later.
void executor_state::make_device() {
  auto made = make_(*listener_);
  if (made) {
    device_ = std::move(*made);
  } else {
    pause_ = std::clamp(6 * pause_, made_again_first, made_again_last);
    made_again_at_ = now() + pause_;
  }
  set_trouble(made ? std::string{} : made.failure().text);
  arm();
}

timestamp executor_state::now() const {
  return self_->clock().now();
}

caf::result<stage_loaded> executor_state::on_load(const load_stage& request) {
  if (!trouble_.empty())
    return to_caf(error{ec::cancelled, trouble_});
  // The instance is unloaded when its replica ends. make_response_promise takes
  // the sender, so the replica is read before.
  if (auto owner = self_->current_sender()) {
    self_->monitor(caf::actor_cast<caf::actor>(owner));
    owners_[request.instance] = owner;
  }
  auto promise = self_->make_response_promise<stage_loaded>();
  ++loads_;
  queue_->set_limit(request.instance, request.concurrency);
  loading_[request.instance] = {promise, request.extends_replica, now()};
  auto& weights = request.content->weights_file;
  auto needed =
    chunks_of(*request.content, request.first_layer, request.last_layer);
  auto arriving = weights && !weights->has(needed);
  device_->load(
    {request.instance, request.content, request.first_layer, request.last_layer,
     request.max_batch, static_cast<uint32_t>(request.threads), request.share,
     request.trusted, request.extends_replica, request.skip_warm_up, arriving},
    now());
  if (arriving)
    weights->when(needed, [to = listener_, id = request.instance](auto& there) {
      to->on_arrival(id, there);
    });
  arm();
  return promise;
}

void executor_state::on_weights_arrived(const weights_arrived& message) {
  auto i = loading_.find(message.instance);
  if (i == loading_.end())
    return;
  i->second.came = now() - i->second.begun;
  device_->on_arrival(
    message.instance,
    message.failure ? result<void>{*message.failure} : result<void>{}, now());
  arm();
}

void executor_state::on_unload(const unload_stage& message) {
  auto from = self_->current_sender();
  auto owner = owners_.find(message.instance);
  if (from && owner != owners_.end() && owner->second->id() == from->id())
    forget(message.instance);
}

void executor_state::on_device_loaded(const device_loaded& message) {
  auto i = loading_.find(message.instance);
  if (i == loading_.end())
    return;
  auto [promise, extends_replica, begun, came] = std::move(i->second);
  loading_.erase(i);
  if (!*message.report) {
    device_->unload(message.instance);
    queue_->forget(message.instance);
    owners_.erase(message.instance);
    promise.deliver(to_caf(message.report->failure()));
    return;
  }
  auto& report = **message.report;
  memory_[message.instance] = {report.memory.value, extends_replica,
                               report.confined};
  report_memory();
  promise.deliver(stage_loaded{message.instance, report.memory.value,
                               to_us(report.load), to_us(report.warm_up),
                               report.confined, to_us(came)});
}

void executor_state::on_device_lost(const device_lost& message) {
  lose(message.instance, *message.why);
}

void executor_state::lose(instance_id instance, const error& why) {
  auto owner = owners_.find(instance);
  if (owner == owners_.end())
    return;
  log_event(
    log_level::warning, "executor", "instance_lost",
    {{"device", info_.id}, {"instance", instance}, {"reason", why.text}});
  auto excused = why.code == ec::deadline_exceeded // see device_listener
                 || why.code == ec::cancelled;
  self_->send(caf::actor_cast<replica_actor>(owner->second),
              stage_lost{instance, why.text, excused});
  forget(instance);
}

void executor_state::on_device_usable(const device_usable& message) {
  if (std::exchange(stands_still_, false) && message.why_not)
    trouble_.clear(); // the device's own report replaces the hang
  set_trouble(message.why_not ? message.why_not->text : std::string{});
}

void executor_state::set_trouble(std::string text) {
  if (text.empty() == trouble_.empty())
    return; // the first report names the cause
  trouble_ = std::move(text);
  auto& device = info_.id;
  log_event(trouble_.empty() ? log_level::info : log_level::error, "executor",
            trouble_.empty() ? "in_service" : "out_of_service",
            {{"device", device}, {"reason", trouble_}});
  self_->send(supervisor_, device_condition{device, trouble_});
  if (trouble_.empty())
    return;
  error why{ec::cancelled, trouble_};
  for (auto& [id, x] : std::exchange(loading_, {})) {
    x.promise.deliver(to_caf(why));
    forget(id);
  }
  std::vector<instance_id> loaded;
  for (auto& [id, x] : memory_)
    loaded.push_back(id);
  for (auto id : loaded)
    lose(id, why);
}

/// When the device counts as hung, unless a running batch ends before. Confined
/// code never hangs a device, because its process is killed. Lanes that a limit
/// keeps free do not count.
timestamp executor_state::stands_still_at() const {
  auto places = queue_->places();
  auto may_begin = given_.size() < places && queue_->waiting() == 0;
  if (!trouble_.empty() || given_.empty() || may_begin)
    return far_future;
  places = std::min(places, static_cast<uint32_t>(given_.size()));
  timestamp out{};
  for (size_t i = 0; i < places; ++i) {
    auto& w = work_.at(given_[i]);
    auto of = memory_.find(w.what.instance);
    if (of == memory_.end() || of->second.confined || w.useless == far_future)
      return far_future;
    out = std::max(out, w.useless);
  }
  return out + stands_still_after;
}

void executor_state::forget(instance_id instance) {
  if (device_)
    device_->unload(instance);
  queue_->forget(instance);
  loading_.erase(instance);
  memory_.erase(instance);
  owners_.erase(instance);
  solo_.erase(instance);
  report_memory();
}

uint64_t executor_state::memory_held() const {
  uint64_t n = 0;
  for (auto& [id, x] : memory_) {
    n += x.bytes;
    if (auto shared = memory_.find(x.extends_replica); shared != memory_.end())
      n -= std::min(n, shared->second.bytes);
  }
  return n;
}

void executor_state::report_memory() {
  memory_bytes_->set(static_cast<double>(memory_held()));
}

device_load executor_state::on_get_load() const {
  auto& info = info_;
  auto since = now();
  // The device runs its oldest batches.
  auto running = std::min<size_t>(given_.size(), std::max(1u, info.lanes));
  for (size_t i = 0; i < running; ++i)
    since = std::min(since, work_.at(given_[i]).useless);
  return {info.id,
          info.lanes,
          to_us(busy_),
          batches_,
          work_.size() - queue_->waiting(),
          queue_->waiting(),
          memory_held(),
          loads_,
          to_us(now() - since),
          queue_->sharing()};
}

void executor_state::on_tune(const tune_stage& message) {
  if (!owners_.contains(message.instance))
    return;
  queue_->set_limit(message.instance, message.concurrency);
  if (message.threads != 0)
    device_->set_threads(message.instance, message.threads);
  feed();
}

caf::result<device_sharing>
executor_state::on_share(const share_device& request) {
  if (auto fits = check_at_once(request.sharing, info_.lanes); !fits)
    return to_caf(std::move(fits.failure())
                    .within("device '" + info_.id + "': sharing.at_once"));
  queue_->set_sharing(request.sharing);
  feed();
  return queue_->sharing();
}

caf::result<ack> executor_state::on_slow(const slow_device& request) {
  if (!device_->slow_down(request.factor, now()))
    return to_caf(
      {ec::bad_request, "device '" + info_.id + "' is not emulated", {}});
  arm();
  return ack{};
}

void executor_state::on_execution(execution& batch) {
  auto id = ++last_;
  queue_->push(id, batch.instance, batch.priority);
  work_.emplace(id, work{std::move(batch), self_->current_sender(), now()});
  feed();
}

void executor_state::on_abandon(const abandon& message) {
  for (auto& [id, w] : work_)
    if (w.what.id == message.id && w.from == self_->current_sender()) {
      w.unwanted.request_stop();
      w.useless = std::min(w.useless, now());
    }
  arm();
}

void executor_state::feed() {
  while (auto id = queue_->next()) {
    auto& w = work_.at(*id);
    if (!memory_.contains(w.what.instance)) { // lost, or its replica ended
      queue_->returned(w.what.instance);
      answer(std::move(work_.extract(*id).mapped()),
             {*id, 0,
              error{ec::unavailable, "the instance was lost before the batch"},
              now(), now()});
      continue;
    }
    given_.push_back(*id);
    auto items = std::exchange(w.what.items, {});
    auto given = w.what;
    given.id = *id;
    given.items = std::move(items);
    given.unwanted = w.unwanted.get_token();
    device_->execute(std::move(given), now());
  }
  arm();
}

void executor_state::on_report(execution_report& report) {
  auto i = work_.find(report.id);
  if (i == work_.end())
    return;
  busy_seconds_->add(to_seconds(report.ended - report.started));
  busy_ += report.ended - report.started;
  ++batches_;
  std::erase(given_, report.id);
  if (std::exchange(stands_still_, false))
    set_trouble({});
  queue_->ended(i->second.what.instance);
  answer(std::move(work_.extract(i).mapped()), std::move(report));
  feed();
}

void executor_state::record(const work& done, const execution_report& report) {
  auto& device = info_.id;
  auto lane = "lane " + std::to_string(report.lane);
  spans_->add("executor/", device, "waits", done.arrived, report.started, 0,
              done.what.trace);
  spans_->add("executor/", device, "runs", report.started, report.ended, 0,
              done.what.trace, std::move(lane));
}

/// Time that a batch lost to other batches on the device. If the device does
/// not measure it, an estimate: the run time minus that of equally large
/// batches that ran alone; 0 until there are some.
microseconds executor_state::interference_of(const work& done,
                                             const execution_report& report) {
  if (info_.lanes <= 1 || report.started == report.ended)
    return 0us;
  auto run = to_us(report.ended - report.started);
  if (report.solo)
    return std::max(0us, run - to_us(*report.solo));
  auto& known = solo_[done.what.instance];
  auto alone = given_.empty() && report.started >= last_end_;
  last_end_ = std::max(last_end_, report.ended);
  auto requests = std::max(done.what.rows.size(),
                           report.outputs ? report.outputs->size() : size_t{0});
  if (alone && report.outputs)
    known.add(requests, run);
  auto expected = known.expected(requests);
  return alone || expected == 0us ? 0us : std::max(0us, run - expected);
}

void executor_state::answer(work done, execution_report report) {
  if (done.what.trace != 0 && spans_->on())
    record(done, report);
  report.id = done.what.id;
  report.queue = to_us(report.started - done.arrived);
  report.interference = interference_of(done, report);
  self_->send(caf::actor_cast<replica_actor>(done.from), std::move(report));
}

void executor_state::on_tick() {
  static_cast<void>(alarm_.rings(now())); // other actors may send ticks as well
  if (!device_) {
    if (now() >= made_again_at_)
      make_device();
    return;
  }
  device_->advance(now());
  if (now() >= stands_still_at()) {
    stands_still_ = true;
    set_trouble(
      "device hung: no running batch finished within a minute after its"
      " deadline");
  }
  arm();
}

void executor_state::arm() {
  alarm_.set(self_, device_ ? std::min(device_->next_due(), stands_still_at())
                            : made_again_at_);
}

executor_actor::behavior_type
executor(executor_actor::stateful_pointer<executor_state> self,
         device_info info, device_factory make, supervisor_actor owner,
         caf::execution_unit* host, std::shared_ptr<metrics> counts,
         std::shared_ptr<span_recorder> spans) {
  auto& s = self->state;
  s.start(self, std::move(info), std::move(make), std::move(owner), host,
          std::move(counts), std::move(spans));
  return {
    [&s](execution& x) { s.on_execution(x); },
    [&s](const abandon& x) { s.on_abandon(x); },
    [&s](execution_report& x) { s.on_report(x); },
    [&s](const load_stage& x) { return s.on_load(x); },
    [&s](const unload_stage& x) { s.on_unload(x); },
    [&s](get_load) { return s.on_get_load(); },
    [&s](const tune_stage& x) { s.on_tune(x); },
    [&s](const share_device& x) { return s.on_share(x); },
    [&s](const slow_device& x) { return s.on_slow(x); },
    [&s](const weights_arrived& x) { s.on_weights_arrived(x); },
    [&s](const device_loaded& x) { s.on_device_loaded(x); },
    [&s](const device_lost& x) { s.on_device_lost(x); },
    [&s](const device_usable& x) { s.on_device_usable(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
