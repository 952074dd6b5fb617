// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "actors/policies/state/duration_bins.hpp"
#include "transport/messages/decision.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// Converts the counters in reports of gateways into rates over the last
/// minute.
///
/// - A report counts up to a point in time of its gateway's clock. Arrivals are
///   assigned to bins of 100 ms of this window's clock by the gateway's own
///   bins. Arrivals older than those bins are spread evenly over the time since
///   the last report.
/// - The difference of the two clocks is the least difference seen, because a
///   report may be late but never early.
/// - A lost or late report costs resolution, not counts.
/// - A restarted gateway begins at zero. A gateway older than this window is
///   counted from its first report on.
class demand_window {
public:
  /// `period`: interval of reports; `begun`: start of the window.
  demand_window(microseconds period, timestamp begun)
    : period_(period),
      begun_(begun) {}

  /// Returns false when the report is ignored, as a whole or in part: it is
  /// older than an earlier report, has lower counts, or has an invalid value.
  bool add(const demand_report& report, timestamp now);

  /// Sets the gateways that report; forgets others.
  void expect(const std::set<std::string>& nodes, timestamp now);

  /// All fields but `groups`.
  model_load load_of(const std::string& model, timestamp now) const;

  /// For how long all expected gateways have reported without a gap; 0 while a
  /// report is overdue, or without gateways.
  microseconds covered(timestamp now) const;

  /// The time up to which all reporting gateways have counted.
  timestamp counted(timestamp now) const;

  /// Models with any demand so far.
  std::vector<std::string> models() const;

  /// Expected gateways without a report for three periods, and for at least a
  /// second.
  std::vector<std::string> overdue(timestamp now) const;

  demand_list list(timestamp now) const;

private:
  static constexpr microseconds bin_length{100'000};
  static constexpr size_t bin_count = 640;

  /// Limit of models of a gateway; counters of further models are ignored.
  static constexpr size_t models_max = 4096;

  /// Fading means: after this time a value has a third of its weight.
  static constexpr microseconds memory{10'000'000};

  /// The latest counters of a gateway for a model.
  struct known_counters {
    model_counters counts;
    microseconds end{0}; ///< end of the counted time, by the gateway's clock
  };

  struct source {
    uint64_t incarnation = 0;
    uint64_t life = 0;
    uint64_t sequence = 0; ///< of the latest report; 0: none yet
    nanoseconds offset{0}; ///< least difference of its clock to this clock
    timestamp end;         ///< end of the counted time, by this clock
    timestamp received;    ///< time of its latest report, or of expect()
    timestamp since;       ///< start of the reports without a gap
    uint64_t reports = 0;
    uint64_t ignored = 0;
    std::map<std::string, known_counters> last; ///< by model
  };

  /// A mean with weights that decay with age. Without new values the mean
  /// stays.
  struct fading {
    double sum = 0, weight = 0;
    timestamp at;

    void add(double more, double count, timestamp now);
    double mean(double without) const {
      return weight > 0 ? sum / weight : without;
    }
  };

  /// Batches of one stage in one report.
  struct stage_sample {
    timestamp from, until; ///< interval of the report
    double batches = 0, requests = 0;
    double wait = 0, run = 0, squares = 0; ///< sums over the batches
    double waited = 0; ///< seconds, summed over the requests
  };

  /// The latest samples, oldest first: those of the last 2 s, and earlier ones
  /// until the sum is 30 batches, at most a minute old.
  class stage {
  public:
    static constexpr microseconds window{2'000'000};
    static constexpr microseconds window_max{60'000'000};
    static constexpr double batches_min = 30;

    void add(const stage_sample& sample);
    stage_load load_at(const layer_range& layers, timestamp now) const;

  private:
    std::deque<stage_sample> samples_;
  };

  struct model {
    std::array<float, bin_count> bins{}; ///< arrivals, by number modulo size
    int64_t newest = -1;                 ///< number of the newest bin
    uint64_t arrived = 0;
    timestamp last_arrival{};
    fading wait, service, within, errors;
    fading_durations latencies{memory}; ///< of ok answers
    fading gaps, squares;               ///< with a single gateway only
    std::map<layer_range, stage> stages;
  };

  int64_t bin_of(timestamp time) const;
  bool is_overdue(const source& reporter, timestamp now) const;
  void spread(model& to, double count, timestamp from, timestamp until);
  /// Interval between two reports of a gateway on a model.
  struct interval {
    timestamp from, until;   ///< by this clock
    microseconds counted{0}; ///< begin of the interval by the gateway's clock
    nanoseconds offset{0};   ///< from the gateway's clock to this one
  };
  bool learn(const model_counters& was, const model_counters& is,
             const interval& when);
  void spread_arrivals(model& to, const model_counters& was,
                       const model_counters& is, const interval& when);
  double counted(const model& demand, int64_t from, int64_t until) const;

  microseconds period_;
  timestamp begun_;
  std::map<std::string, source> sources_; ///< by node
  std::map<std::string, model> models_;
};

} // namespace millrace
