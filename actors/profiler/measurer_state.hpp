// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "actors/profiler/measurer.hpp"

namespace millrace {

/// State of a MEASURER; see measurer.hpp.
struct measurer_state {
  const char* name = "measurer";

  void start(measurer_actor::stateful_pointer<measurer_state> self,
             measurer_options options);

  caf::result<measured> on_measure(measure& x);
  void on_executed(const executed& x);
  void on_lost(const stage_lost& x);

private:
  timestamp now() const;
  void on_fetched(const fetched& x);
  void on_idle(const device_load& x);
  void load_next();
  void on_loaded(const stage_loaded& x);
  void run_next();
  void add_stage_points();
  void finish(const device_load& x);
  void fail(error why);

  /// One stage: all layers, or one of them.
  struct stage {
    layer_range layers;
    stage_loaded loaded;
    std::vector<double> medians; ///< seconds, of each number of rows
  };

  measurer_actor::stateful_pointer<measurer_state> self_ = nullptr;
  measurer_options options_;
  measure what_;
  caf::typed_response_promise<measured> promise_;
  std::shared_ptr<const bundle> content_;
  model_info info_;
  timestamp begun_;
  double open_seconds_ = 0;
  std::vector<stage> stages_; ///< the first is the whole model
  size_t stage_ = 0;          ///< that is being measured
  std::vector<double> runs_;  ///< seconds, of the number of rows that is next
  uint64_t batches_ = 0;      ///< of the device's, before
  uint64_t mine_ = 0;         ///< since
  bool over_ = false;
};

} // namespace millrace
