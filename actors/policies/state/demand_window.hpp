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

/// Turns the counters that gateways report into rates over the last minute.
///
/// A report counts up to a moment of its gateway's clock. Its arrivals go into
/// bins of 100 ms of this clock by the gateway's own bins; arrivals older than
/// those are spread evenly over the time since the report before. The two
/// clocks are taken to differ by the least difference seen, for a report is
/// late at times and never early. Reports that are lost or late cost
/// resolution, not counts. A gateway that begins anew begins at zero; one that
/// was running before this window began is counted from its first report on.
class demand_window {
public:
  /// `period` is how often gateways report; `begun` is when this began.
  demand_window(microseconds period, timestamp begun)
    : period_(period),
      begun_(begun) {}

  /// False when the report is ignored as a whole or in part: it is older than
  /// one that came before, counts less than that, or has a figure that is none.
  bool add(const demand_report& x, timestamp now);

  /// The gateways that are to report; others are forgotten.
  void expect(const std::set<std::string>& nodes, timestamp now);

  /// Everything but `groups`.
  model_load load_of(const std::string& model, timestamp now) const;

  /// For how long every gateway that is expected has reported without a gap; 0
  /// while a report is overdue, or there is no gateway.
  microseconds covered(timestamp now) const;

  /// Up to when every gateway that reports has counted.
  timestamp counted(timestamp now) const;

  /// Models with any demand so far.
  std::vector<std::string> models() const;

  /// Gateways that are expected and from which no report came for three
  /// periods, and for at least a second.
  std::vector<std::string> overdue(timestamp now) const;

  demand_list list(timestamp now) const;

private:
  static constexpr microseconds bin_length{100'000};
  static constexpr size_t bin_count = 640;

  /// Models that a gateway may report; counters of further ones are ignored.
  static constexpr size_t models_max = 4096;

  /// Fading figures: after this time a figure counts a third.
  static constexpr microseconds memory{10'000'000};

  /// The latest counters of a gateway for a model.
  struct known_counters {
    model_counters counts;
    microseconds end{0}; ///< up to when, by the gateway's clock
  };

  struct source {
    uint64_t incarnation = 0;
    uint64_t life = 0;
    uint64_t sequence = 0; ///< of the latest report; 0: none yet
    nanoseconds offset{0}; ///< from its clock to this one, at least
    timestamp end;         ///< up to when it has counted, by this clock
    timestamp received;    ///< its latest report, or when it was expected
    timestamp since;       ///< without a gap
    uint64_t reports = 0;
    uint64_t ignored = 0;
    std::map<std::string, known_counters> last; ///< by model
  };

  /// A mean in which figures count less the older they are. What nothing is
  /// added to keeps its mean.
  struct fading {
    double sum = 0, weight = 0;
    timestamp at;

    void add(double more, double count, timestamp now);
    double mean(double without) const {
      return weight > 0 ? sum / weight : without;
    }
  };

  /// Batches of one report that passed a stage.
  struct stage_sample {
    timestamp from, until; ///< of the report
    double batches = 0, requests = 0;
    double wait = 0, run = 0, squares = 0; ///< sums over the batches
    double waited = 0; ///< seconds, summed over the requests
  };

  /// The latest samples, oldest first: those of the last 2 s, and before these
  /// as many as make up 30 batches, at most a minute old.
  class stage {
  public:
    static constexpr microseconds window{2'000'000};
    static constexpr microseconds window_max{60'000'000};
    static constexpr double batches_min = 30;

    void add(const stage_sample& x);
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
    fading gaps, squares;               ///< of the gaps of a single gateway
    std::map<layer_range, stage> stages;
  };

  int64_t bin_of(timestamp x) const;
  bool is_overdue(const source& x, timestamp now) const;
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
  double counted(const model& x, int64_t from, int64_t until) const;

  microseconds period_;
  timestamp begun_;
  std::map<std::string, source> sources_; ///< by node
  std::map<std::string, model> models_;
};

} // namespace millrace
