// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "actors/profiler/measurer.hpp"

namespace millrace {

/// What each of some layers takes of what all together take: by itself each
/// took this, of which `fixed` is for doing it at all, and the rest, times
/// `scale`, its share. They are measured apart, and their noise adds up.
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

  caf::result<measured> on_measure(measure& x);
  void on_executed(executed& x);
  void on_lost(const stage_lost& x);

private:
  timestamp now() const;
  void on_fetched(const fetched& x);
  void on_idle(const device_load& x);
  void load_next();
  void on_loaded(const stage_loaded& x);
  void run_next();
  result<tensor_list> next_inputs() const;
  void finish(const device_load& x);
  void fail(error why);

  /// Of a stage with one number of rows.
  struct figures {
    double seconds = 0; ///< the median
    double peak = 0;    ///< bytes, as in executed
    double takes = 0;   ///< bytes
    double gives = 0;   ///< bytes
  };

  /// One stage: all layers, or one of them.
  struct stage {
    layer_range layers;
    stage_loaded loaded{};       ///< the last time
    std::vector<double> loads{}; ///< seconds, of each time
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
  std::vector<stage> stages_; ///< the first is the whole model
  size_t stage_ = 0;          ///< that is being measured
  figures now_;               ///< of the number of rows that is next
  std::vector<double> runs_;  ///< seconds, of that
  bool metered_ = false;      ///< what it takes is known
  /// What the layer before gave, of each number of rows, and what this one
  /// gives: the next one's inputs.
  std::vector<tensor_list> taken_, given_;
  device_load before_;
  uint64_t mine_ = 0; ///< batches since
  bool over_ = false;
};

} // namespace millrace
