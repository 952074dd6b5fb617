// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/executor/admission.hpp"
#include "actors/executor/executor.hpp"
#include "models/batch_times.hpp"

namespace millrace {

/// Turns a device's completions into messages to its executor.
class completion_sender : public device_listener {
public:
  completion_sender(caf::weak_actor_ptr to, caf::execution_unit* host)
    : to_(std::move(to)),
      host_(host) {}

  void on_loaded(instance_id instance, result<load_report> report) override;
  void on_lost(instance_id instance, error why) override;
  void on_executed(execution_report report) override;
  void on_usable(result<void> outcome) override;
  void on_arrival(instance_id instance, const result<void>& there);

private:
  template <class T>
  void tell(T message);

  caf::weak_actor_ptr to_;
  caf::execution_unit* host_;
};

/// State of an EXECUTOR; see executor.hpp.
struct executor_state {
  const char* name = "executor";

  void start(executor_actor::stateful_pointer<executor_state> self,
             device_info info, device_factory make, supervisor_actor owner,
             caf::execution_unit* host, std::shared_ptr<metrics> counts,
             std::shared_ptr<span_recorder> spans);

  caf::result<stage_loaded> on_load(const load_stage& request);
  void on_unload(const unload_stage& message);
  void on_execution(execution& batch);
  void on_abandon(const abandon& message);
  void on_weights_arrived(const weights_arrived& message);
  void on_device_loaded(const device_loaded& message);
  void on_device_lost(const device_lost& message);
  void on_report(execution_report& message);
  void on_device_usable(const device_usable& message);
  device_load on_get_load() const;
  void on_tune(const tune_stage& message);
  caf::result<device_sharing> on_share(const share_device& request);
  caf::result<ack> on_slow(const slow_device& request);
  void on_tick();

private:
  struct work {
    execution what;
    caf::strong_actor_ptr from;
    timestamp arrived;
    std::stop_source unwanted{};
    timestamp useless = what.until; ///< when its result becomes useless
  };
  struct load {
    caf::typed_response_promise<stage_loaded> promise;
    instance_id extends_replica;
    timestamp begun;
    nanoseconds came{0}; ///< time until its weights had arrived
  };
  struct held {
    uint64_t bytes = 0; ///< includes those of extends_replica
    instance_id extends_replica = 0;
    bool confined = false; ///< runs in a process that is killed when it hangs
  };

  timestamp now() const;
  void make_device();
  void lose(instance_id instance, const error& why);
  void set_trouble(std::string text);
  timestamp stands_still_at() const;
  void forget(instance_id instance);
  void feed();
  void answer(work done, execution_report report);
  microseconds interference_of(const work& done,
                               const execution_report& report);
  void record(const work& done, const execution_report& report);
  void arm();
  uint64_t memory_held() const;
  void report_memory();

  executor_actor::stateful_pointer<executor_state> self_ = nullptr;
  supervisor_actor supervisor_;
  std::string trouble_;       ///< why the device is unusable; empty: usable
  bool stands_still_ = false; ///< the trouble is that the device hangs
  std::shared_ptr<span_recorder> spans_;
  std::shared_ptr<completion_sender> listener_;
  device_info info_;
  device_factory make_;
  std::unique_ptr<device> device_;       // after its listener: ends before it
  timestamp made_again_at_ = far_future; ///< next attempt to open the device
  nanoseconds pause_{0};                 ///< before that attempt
  std::optional<admission> queue_;
  std::unordered_map<uint64_t, work> work_; ///< by batch number of this actor
  std::vector<uint64_t> given_;             ///< batches on the device, in order
  std::map<instance_id, load> loading_;
  std::map<instance_id, held> memory_;
  std::map<instance_id, caf::strong_actor_ptr> owners_; ///< replicas
  std::map<instance_id, batch_times> solo_; ///< times of batches run alone
  timestamp last_end_{}; ///< end of the last batch on the device
  uint64_t last_ = 0;
  nanoseconds busy_{0};
  uint64_t batches_ = 0;
  uint64_t loads_ = 0; ///< loads begun
  alarm alarm_;
  std::optional<counter> busy_seconds_;
  std::optional<gauge> memory_bytes_;
};

} // namespace millrace
