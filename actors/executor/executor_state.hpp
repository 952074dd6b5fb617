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

  void on_loaded(instance_id x, result<load_report> report) override;
  void on_lost(instance_id x, error why) override;
  void on_executed(execution_report report) override;
  void on_usable(result<void> x) override;
  void on_arrival(instance_id x, const result<void>& there);

private:
  template <class T>
  void tell(T x);

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

  caf::result<stage_loaded> on_load(const load_stage& x);
  void on_unload(const unload_stage& x);
  void on_execute(execute& x);
  void on_abandon(const abandon& x);
  void on_weights_arrived(const weights_arrived& x);
  void on_device_loaded(const device_loaded& x);
  void on_device_lost(const device_lost& x);
  void on_device_executed(const device_executed& x);
  void on_device_usable(const device_usable& x);
  device_load on_get_load() const;
  void on_tune(const tune_stage& x);
  caf::result<device_sharing> on_share(const share_device& x);
  caf::result<ack> on_slow(const slow_device& x);
  void on_tick();

private:
  struct work {
    execute what;
    caf::strong_actor_ptr from;
    timestamp arrived;
    std::stop_source unwanted{};
    timestamp useless = what.until.at; ///< from then on
  };
  struct load {
    caf::typed_response_promise<stage_loaded> promise;
    instance_id extends_replica;
    timestamp begun;
    nanoseconds came{0}; ///< what its weights took to come
  };
  struct held {
    uint64_t bytes = 0; ///< with those of the one that it completes
    instance_id extends_replica = 0;
    bool confined = false; ///< it is ended when it takes too long
  };

  timestamp now() const;
  void make_device();
  void lose(instance_id x, const error& why);
  void set_trouble(std::string text);
  timestamp stands_still_at() const;
  void forget(instance_id x);
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
  std::string trouble_;       ///< why nothing can run; empty: it can
  bool stands_still_ = false; ///< which is the trouble
  std::shared_ptr<span_recorder> spans_;
  std::shared_ptr<completion_sender> listener_;
  device_info info_;
  device_factory make_;
  std::unique_ptr<device> device_;       // after its listener: ends before it
  timestamp made_again_at_ = far_future; ///< where there is none
  nanoseconds pause_{0};                 ///< before that
  std::optional<admission> queue_;
  std::unordered_map<uint64_t, work> work_; ///< by our own number
  std::vector<uint64_t> given_; ///< those that the device has, in order
  std::map<instance_id, load> loading_;
  std::map<instance_id, held> memory_;
  std::map<instance_id, caf::strong_actor_ptr> owners_; ///< their replicas
  std::map<instance_id, batch_times> solo_; ///< of batches that ran alone
  timestamp last_end_{};                    ///< of a batch on the device
  uint64_t last_ = 0;
  nanoseconds busy_{0};
  uint64_t batches_ = 0;
  uint64_t loads_ = 0; ///< begun
  alarm alarm_;
  std::optional<counter> busy_seconds_;
  std::optional<gauge> memory_bytes_;
};

} // namespace millrace
