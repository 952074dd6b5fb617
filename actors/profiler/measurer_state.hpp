// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "actors/profiler/measurer.hpp"

namespace millrace {

/// Cost model of layers: a layer that takes `each` seconds alone adds scale *
/// (each - fixed) to the seconds of all layers, where `fixed` is the cost of
/// any run or load. The scale absorbs the noise of separate measurements.
struct shares {
  double fixed = 0;
  double scale = 1;
  double of(double each) const { return scale * (each - fixed); }
};

/// State of a MEASURER; see measurer.hpp.
struct measurer_state {
  const char* name = "measurer";

  void start(measurer_actor::stateful_pointer<measurer_state> self,
             measurer_options options);

  caf::result<measured> on_measure(measure& request);
  void on_report(execution_report& message);
  void on_lost(const stage_lost& message);

private:
  timestamp now() const;
  void on_fetched(const fetched& message);
  void on_idle(const device_load& load);
  void load_next();
  void on_loaded(const stage_loaded& message);
  void run_next();
  result<tensor_list> next_inputs() const;
  void finish(const device_load& load);
  void fail(error why);

  /// Measured values of a stage for one number of rows.
  struct figures {
    double seconds = 0; ///< the median
    double peak = 0;    ///< bytes, as executed::peak
    double takes = 0;   ///< bytes of inputs
    double gives = 0;   ///< bytes of outputs
  };

  /// All layers, or one layer.
  struct stage {
    layer_range layers;
    stage_loaded loaded{};       ///< result of the latest load
    std::vector<double> loads{}; ///< seconds of each load
    std::vector<figures> by_rows{};
  };
  shares shares_by(const std::function<double(const stage&)>& seconds) const;
  void add_points(const stage& s, const shares& loads,
                  const std::vector<shares>& runs,
                  std::vector<profile_point>& to) const;

  measurer_actor::stateful_pointer<measurer_state> self_ = nullptr;
  measurer_options options_;
  measure what_;
  caf::typed_response_promise<measured> promise_;
  std::shared_ptr<const bundle> content_;
  model_info info_;
  timestamp begun_;
  double open_seconds_ = 0;
  std::vector<stage> stages_; ///< the first stage has all layers
  size_t stage_ = 0;          ///< index of the stage in progress
  figures now_;               ///< for the number of rows in progress
  std::vector<double> runs_;  ///< seconds of the runs so far
  bool metered_ = false;      ///< the first run has metered memory
  /// Outputs of the layer before and of this layer, by number of rows. Outputs
  /// are the inputs of the next layer.
  std::vector<tensor_list> taken_, given_;
  device_load before_;
  uint64_t mine_ = 0; ///< batches of this measure
  bool over_ = false;
};

} // namespace millrace
