// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/demand_window.hpp"

#include <algorithm>
#include <cmath>

namespace millrace {

namespace {

constexpr size_t seconds_shown = 60;

/// Longest plausible uptime of a gateway; a report with a longer time is
/// invalid.
constexpr microseconds longest_run = 24h * 36'500;

bool is_number(const moments& x) {
  return std::isfinite(x.sum) && std::isfinite(x.squares) && x.sum >= 0
         && x.squares >= 0;
}

bool is_sound(const model_counters& x) {
  return is_number(x.gaps) && is_number(x.waits)
         && std::isfinite(x.device_seconds) && x.device_seconds >= 0
         && x.oldest >= 0us && x.latencies.first <= duration_bins::most
         && x.latencies.counts.size() <= duration_bins::most - x.latencies.first
         && std::all_of(x.stages.begin(), x.stages.end(), [](auto& y) {
              return is_number(y.waits) && is_number(y.runs)
                     && std::isfinite(y.waited) && y.waited >= 0;
            });
}

/// The counters of a stage; null: nothing was counted yet.
const stage_counters* stage_of(const model_counters& x,
                               const layer_range& layers) {
  auto i = std::find_if(x.stages.begin(), x.stages.end(),
                        [&](auto& y) { return y.layers == layers; });
  return i == x.stages.end() ? nullptr : &*i;
}

bool falls(const moments& was, const moments& is) {
  return is.count < was.count || is.sum < was.sum || is.squares < was.squares;
}

/// The count of the bin with this number.
template <class Bins>
uint64_t count_in_bin(const Bins& x, uint64_t number) {
  return number >= x.first && number - x.first < x.counts.size()
           ? x.counts[number - x.first]
           : 0;
}

bool falls(const duration_bins& was, const duration_bins& is) {
  for (size_t i = 0; i < was.counts.size(); ++i)
    if (was.counts[i] > count_in_bin(is, was.first + i))
      return true;
  return false;
}

/// Whether any counter has decreased.
bool falls(const model_counters& was, const model_counters& is) {
  return is.arrived < was.arrived || is.rows < was.rows || is.ok < was.ok
         || is.within < was.within || is.late < was.late
         || is.overloaded < was.overloaded || is.unavailable < was.unavailable
         || is.failed < was.failed || falls(was.gaps, is.gaps)
         || falls(was.waits, is.waits) || is.device_seconds < was.device_seconds
         || is.executed < was.executed || falls(was.latencies, is.latencies)
         || std::any_of(was.stages.begin(), was.stages.end(), [&](auto& x) {
              auto* y = stage_of(is, x.layers);
              return y == nullptr || y->requests < x.requests
                     || falls(x.waits, y->waits) || falls(x.runs, y->runs)
                     || y->waited < x.waited;
            });
}

/// Whether no bin begins after the end of the report.
bool fits(const arrival_bins& x, microseconds end) {
  auto last = static_cast<uint64_t>(end / arrival_bins::length);
  return x.counts.empty()
         || (x.first <= last && x.counts.size() - 1 <= last - x.first);
}

/// The coefficient of variation, from a mean and the mean of squares.
double cv_of(double mean, double squares) {
  return mean > 0 ? std::sqrt(std::max(0., squares - mean * mean)) / mean : 0;
}

double more(uint64_t was, uint64_t is) {
  return static_cast<double>(is - was);
}

} // namespace

void demand_window::fading::add(double more_of_it, double count,
                                timestamp now) {
  if (count <= 0)
    return;
  auto age = to_seconds(std::max(nanoseconds{0}, now - at));
  auto part = weight > 0 ? std::exp(-age / to_seconds(memory)) : 0;
  sum = sum * part + more_of_it;
  weight = weight * part + count;
  at = std::max(at, now);
}

int64_t demand_window::bin_of(timestamp time) const {
  auto since = time - begun_;
  auto n = since / bin_length;
  return n * bin_length > since ? n - 1 : n; // rounds down below 0
}

/// Spreads a count evenly over an interval. The part before the window began is
/// dropped.
void demand_window::spread(model& to, double count, timestamp from,
                           timestamp until) {
  if (count <= 0)
    return;
  auto last = std::max<int64_t>(0, bin_of(until - nanoseconds{1}));
  for (; to.newest < last; ++to.newest) {
    if (last - to.newest > static_cast<int64_t>(bin_count))
      to.newest = last - static_cast<int64_t>(bin_count) - 1;
    to.bins[static_cast<size_t>(to.newest + 1) % bin_count] = 0;
  }
  auto all = to_seconds(until - from);
  auto first = std::max({int64_t{0}, bin_of(from),
                         to.newest - static_cast<int64_t>(bin_count) + 1});
  for (auto i = first; i <= last; ++i) {
    auto begin = begun_ + i * bin_length;
    auto part = to_seconds(std::min<timestamp>(begin + bin_length, until)
                           - std::max(begin, from));
    to.bins[static_cast<size_t>(i) % bin_count] +=
      static_cast<float>(all > 0 ? count * part / all : count);
  }
}

/// Assigns arrivals by the bins of the gateway; arrivals outside the bins are
/// spread evenly.
void demand_window::spread_arrivals(model& to, const model_counters& was,
                                    const model_counters& is,
                                    const interval& when) {
  auto left = is.arrived - was.arrived;
  auto known_until = static_cast<uint64_t>(when.counted / arrival_bins::length);
  auto& bins = is.bins;
  auto count = std::min(bins.counts.size(), arrival_bins::most);
  auto oldest = when.until;
  for (auto i = count; i > 0 && left > 0; --i) {
    auto number = bins.first + i - 1;
    if (number < known_until)
      break;
    auto seen = number == known_until ? count_in_bin(was.bins, number) : 0;
    auto fresh =
      std::min(left, bins.counts[i - 1] - std::min(bins.counts[i - 1], seen));
    left -= fresh;
    auto begin = timestamp{
      when.offset + static_cast<int64_t>(number) * arrival_bins::length};
    auto from = std::clamp(begin, when.from, when.until);
    spread(to, static_cast<double>(fresh), from,
           std::clamp(begin + arrival_bins::length, from, when.until));
    oldest = from;
  }
  spread(to, static_cast<double>(left), when.from, oldest);
}

void demand_window::stage::add(const stage_sample& sample) {
  auto later =
    std::upper_bound(samples_.begin(), samples_.end(), sample.until,
                     [](timestamp t, auto& y) { return t < y.until; });
  samples_.insert(later, sample);
  auto newest = samples_.back().until;
  double batches = 0;
  for (auto& y : samples_)
    batches += y.batches;
  while (samples_.size() > 1) {
    auto& oldest = samples_.front();
    auto age = newest - oldest.until;
    if (age < window
        || (age < window_max && batches - oldest.batches < batches_min))
      break;
    batches -= oldest.batches;
    samples_.pop_front();
  }
}

stage_load demand_window::stage::load_at(const layer_range& layers,
                                         timestamp now) const {
  stage_sample sum;
  double waited = 0, recent = 0; // in the window alone
  auto from = now;
  for (auto& x : samples_) {
    sum.batches += x.batches;
    sum.requests += x.requests;
    sum.wait += x.wait;
    sum.run += x.run;
    sum.squares += x.squares;
    if (now - x.until >= window)
      continue;
    waited += x.waited;
    recent += x.batches;
    from = std::min(from, x.from);
  }
  stage_load out;
  out.layers = layers;
  out.batches = static_cast<uint64_t>(recent);
  out.batch = sum.requests / sum.batches;
  out.wait = sum.wait / sum.batches;
  out.run = sum.run / sum.batches;
  out.run_cv = cv_of(out.run, sum.squares / sum.batches);
  if (from < now)
    out.queue = waited / to_seconds(now - from);
  return out;
}

bool demand_window::learn(const model_counters& was, const model_counters& is,
                          const interval& when) {
  if (!is_sound(is) || falls(was, is))
    return false;
  auto until = when.until;
  auto& m = models_[is.model];
  auto arrived = more(was.arrived, is.arrived);
  spread_arrivals(m, was, is, when);
  m.arrived += is.arrived - was.arrived;
  if (arrived > 0)
    m.last_arrival = std::max(m.last_arrival, until);
  m.wait.add(is.waits.sum - was.waits.sum,
             more(was.waits.count, is.waits.count), until);
  m.service.add(is.device_seconds - was.device_seconds,
                more(was.executed, is.executed), until);
  auto errors = more(was.late, is.late) + more(was.overloaded, is.overloaded)
                + more(was.unavailable, is.unavailable)
                + more(was.failed, is.failed);
  auto answers = more(was.ok, is.ok) + errors;
  m.within.add(more(was.within, is.within), answers, until);
  m.errors.add(errors, answers, until);
  m.latencies.add(was.latencies, is.latencies, until);
  auto gaps = more(was.gaps.count, is.gaps.count);
  m.gaps.add(is.gaps.sum - was.gaps.sum, gaps, until);
  m.squares.add(is.gaps.squares - was.gaps.squares, gaps, until);
  static const stage_counters none;
  for (auto& x : is.stages) {
    auto* known = stage_of(was, x.layers);
    auto& before = known != nullptr ? *known : none;
    if (auto batches = more(before.runs.count, x.runs.count); batches > 0)
      m.stages[x.layers].add(
        {when.from, until, batches, more(before.requests, x.requests),
         x.waits.sum - before.waits.sum, x.runs.sum - before.runs.sum,
         x.runs.squares - before.runs.squares, x.waited - before.waited});
  }
  return true;
}

bool demand_window::add(const demand_report& report, timestamp now) {
  auto& s = sources_[report.node];
  if (report.end < 0us || report.end > longest_run) {
    ++s.reports;
    ++s.ignored;
    return false;
  }
  auto is_newer = std::pair{report.incarnation, report.life}
                  > std::pair{s.incarnation, s.life};
  ++s.reports;
  if (!is_newer
      && (report.incarnation != s.incarnation || report.life != s.life
          || report.sequence <= s.sequence)) {
    ++s.ignored;
    return false;
  }
  auto fresh = is_newer || s.sequence == 0;
  auto offset = now.time_since_epoch() - report.end;
  if (fresh) {
    s.incarnation = report.incarnation;
    s.life = report.life;
    s.last.clear();
    s.offset = offset;
    s.since = now;
  } else {
    s.offset = std::min(s.offset, offset);
    if (now - s.received > std::max<microseconds>(3 * period_, 1s))
      s.since = now;
  }
  auto until = std::min(now, timestamp{s.offset + report.end});
  // A gateway that began after this window is counted from its start. The
  // counts of an earlier gateway have no known times, and are dropped.
  auto past_is_known = report.end <= now - begun_ + bin_length;
  auto from = !fresh          ? std::min(s.end, until)
              : past_is_known ? until - report.end
                              : until;
  auto fine = true;
  static const known_counters none;
  for (auto& m : report.models) {
    auto i = s.last.find(m.model);
    auto& known = i == s.last.end() ? none : i->second;
    interval when{from, until, known.end, s.offset};
    if (i != s.last.end())
      when.from = std::min(timestamp{s.offset + known.end}, until);
    auto begins = fresh && !past_is_known;
    auto taken = (i != s.last.end() || s.last.size() < models_max)
                 && fits(m.bins, report.end)
                 && (begins ? is_sound(m) : learn(known.counts, m, when));
    fine = fine && taken;
    if (taken)
      s.last[m.model] = {m, report.end};
  }
  s.ignored += !fine;
  s.sequence = report.sequence;
  s.end = until;
  s.received = now;
  return fine;
}

void demand_window::expect(const std::set<std::string>& nodes, timestamp now) {
  std::erase_if(sources_, [&](auto& x) { return !nodes.contains(x.first); });
  for (auto& node : nodes)
    if (auto [i, is_new] = sources_.try_emplace(node); is_new)
      i->second.received = i->second.since = i->second.end = now;
}

bool demand_window::is_overdue(const source& reporter, timestamp now) const {
  return now - reporter.received > std::max<microseconds>(3 * period_, 1s);
}

std::vector<std::string> demand_window::overdue(timestamp now) const {
  std::vector<std::string> out;
  for (auto& [node, s] : sources_)
    if (is_overdue(s, now))
      out.push_back(node);
  return out;
}

microseconds demand_window::covered(timestamp now) const {
  auto until = now, since = begun_;
  for (auto& [node, s] : sources_) {
    if (s.sequence == 0 || is_overdue(s, now))
      return 0us;
    until = std::min(until, s.end);
    since = std::max(since, s.since);
  }
  return sources_.empty() ? 0us : std::max(0us, to_us(until - since));
}

timestamp demand_window::counted(timestamp now) const {
  auto out = now;
  for (auto& [node, s] : sources_)
    if (s.sequence > 0 && !is_overdue(s, now))
      out = std::min(out, s.end);
  return out;
}

double demand_window::counted(const model& demand, int64_t from,
                              int64_t until) const {
  double out = 0;
  auto oldest = demand.newest - static_cast<int64_t>(bin_count) + 1;
  for (auto i = std::max({from, oldest, int64_t{0}});
       i < until && i <= demand.newest; ++i)
    out += demand.bins[static_cast<size_t>(i) % bin_count];
  return out;
}

model_load demand_window::load_of(const std::string& name,
                                  timestamp now) const {
  model_load out;
  // All gateways with current reports have counted up to this time.
  auto until = counted(now);
  for (auto& [node, s] : sources_) {
    if (is_overdue(s, now))
      continue;
    if (auto i = s.last.find(name); i != s.last.end()) {
      auto& counts = i->second.counts;
      out.waiting += counts.waiting;
      if (counts.waiting > 0)
        out.oldest = std::max(out.oldest, counts.oldest);
    }
  }
  auto i = models_.find(name);
  if (i == models_.end())
    return out;
  auto& m = i->second;
  constexpr auto per_second = static_cast<int64_t>(1s / bin_length);
  auto end = bin_of(until); // an incomplete bin
  out.seconds.reserve(seconds_shown);
  for (size_t k = 0; k < seconds_shown && end > 0; ++k, end -= per_second)
    out.seconds.push_back(counted(m, end - per_second, end));
  out.rate = out.seconds.empty() ? 0 : out.seconds.front();
  out.wait = m.wait.mean(0);
  out.service = m.service.mean(0);
  out.within = m.within.mean(1);
  for (auto& [layers, y] : m.stages)
    out.stages.push_back(y.load_at(layers, until));
  if (m.last_arrival > begun_)
    out.last_arrival = to_us(m.last_arrival - begun_);
  if (sources_.size() == 1 && m.gaps.mean(0) > 0) {
    out.arrival_cv = cv_of(m.gaps.mean(0), m.squares.mean(0));
  } else if (out.seconds.size() > 1) {
    // With several gateways: the index of dispersion of counts.
    double sum = 0, squares = 0;
    for (auto x : out.seconds) {
      sum += x;
      squares += x * x;
    }
    auto n = static_cast<double>(out.seconds.size());
    if (auto mean = sum / n; mean > 0)
      out.arrival_cv =
        std::sqrt(std::max(0., squares / n - mean * mean) / mean);
  }
  return out;
}

std::vector<std::string> demand_window::models() const {
  std::vector<std::string> out;
  for (auto& [name, m] : models_)
    out.push_back(name);
  return out;
}

demand_list demand_window::list(timestamp now) const {
  demand_list out;
  for (auto& [name, m] : models_) {
    auto x = load_of(name, now);
    out.models.push_back({name, x.rate, m.arrived, x.waiting, x.oldest, x.wait,
                          x.service, x.within, x.arrival_cv, x.stages,
                          m.latencies.quantile(0.5), m.latencies.quantile(0.99),
                          m.errors.mean(0)});
  }
  for (auto& [node, s] : sources_)
    out.sources.push_back(
      {node, s.reports, s.ignored, to_us(now - s.received)});
  return out;
}

} // namespace millrace
