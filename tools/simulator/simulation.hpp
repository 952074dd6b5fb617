// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "simulator/arrivals.hpp"
#include "simulator/recorder.hpp"

namespace millrace::simulator {

/// One run of a scenario, from an empty cluster to the last answer.
class simulation : private observer {
public:
  /// Errors: bad_request when the workload cannot be made.
  static result<std::unique_ptr<simulation>>
  prepare(const loaded_scenario& what, uint64_t seed);
  ~simulation() override;

  /// Runs it; `progress` is told now and then which part is done.
  void run(const std::function<void(double part)>& progress = {});

  const record& found() const { return record_; }
  record take() { return std::move(record_); }

private:
  struct arrival {
    microseconds at;
    uint32_t function = 0;
  };
  struct stream {
    const workload_part* part = nullptr;
    std::vector<arrival> arrivals;
    size_t next = 0;
    random_stream random{1};
    double total_weight = 0;
    microseconds deadline{0};
  };

  simulation(const loaded_scenario& what, uint64_t seed);
  result<void> make_workload();
  void schedule(size_t stream_number);
  void submit(size_t stream_number);
  const std::string& choose_model(stream& s, uint32_t function);
  infer make_request(const stream& s, const std::string& model, uint64_t id);
  node* next_gateway();
  microseconds since_start(timestamp x) const;

  void on_reply(const session& from, uint64_t id, infer_reply& x) override;
  void on_node(const std::string& node, std::string_view what) override;
  void on_loaded(const std::string& node, const std::string& device,
                 const load_request& x, timestamp begun,
                 const result<load_report>& how) override;
  void on_unloaded(const std::string& node, const std::string& device,
                   instance_id x) override;
  void on_executed(const executed_batch& x) override;

  const loaded_scenario& what_;
  uint64_t seed_;
  record record_;
  std::vector<stream> streams_;
  std::vector<std::string> gateways_;
  size_t next_gateway_ = 0;
  std::map<std::string, shared_bytes> inputs_; ///< by model, when large
  std::map<std::string, size_t> copies_;       ///< NODE/DEVICE#INSTANCE -> row
  std::map<std::string, timestamp> up_since_;  ///< by node
  size_t open_ = 0;
  timestamp begin_;
  virtual_world* world_ = nullptr;
  std::unique_ptr<cluster> cluster_; ///< last: goes first
};

} // namespace millrace::simulator
