// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/dispatch/dispatcher.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

namespace millrace {

namespace {

class pull : public dispatcher {
public:
  explicit pull(random_stream random) : random_(random) {}

  void set_credit(replica_id x, uint32_t credit) override {
    auto& at = places_[x];
    take_out(at);
    at.credit = credit;
    if (credit >= by_credit_.size())
      by_credit_.resize(credit + 1);
    at.index = by_credit_[credit].size();
    by_credit_[credit].push_back(x);
    most_ = std::max(most_, credit);
    while (most_ > 0 && by_credit_[most_].empty())
      --most_;
    lot_ = random_.next();
  }

  void remove(replica_id x) override {
    set_credit(x, 0);
    take_out(places_.at(x));
    places_.erase(x);
  }

  std::optional<replica_id> next() const override {
    if (most_ == 0)
      return std::nullopt;
    auto& equals = by_credit_[most_];
    return equals[lot_ % equals.size()];
  }

private:
  static constexpr size_t nowhere = SIZE_MAX;

  struct place {
    uint32_t credit = 0;
    size_t index = nowhere; ///< among its equals
  };

  void take_out(const place& x) {
    if (x.index == nowhere)
      return;
    auto& equals = by_credit_[x.credit];
    auto last = equals.back();
    equals.pop_back();
    if (x.index < equals.size()) {
      equals[x.index] = last;
      places_.at(last).index = x.index;
    }
  }

  random_stream random_;
  uint64_t lot_ = 0; ///< stays while nothing changes: asking is not taking
  // Lists that stay where they are: a batch allocates nothing.
  std::vector<std::vector<replica_id>> by_credit_;
  uint32_t most_ = 0; ///< credit of any
  std::unordered_map<replica_id, place> places_;
};

class round_robin : public dispatcher {
public:
  void set_credit(replica_id x, uint32_t credit) override {
    if (credit > 0)
      able_.insert(x);
    else
      able_.erase(x);
  }

  void remove(replica_id x) override { able_.erase(x); }

  std::optional<replica_id> next() const override {
    if (able_.empty())
      return std::nullopt;
    auto i = able_.upper_bound(last_);
    return i == able_.end() ? *able_.begin() : *i;
  }

  void given(replica_id x) override { last_ = x; }

private:
  std::set<replica_id> able_;
  replica_id last_ = 0;
};

/// Strict: the order does not depend on which replica is free.
class in_turn : public dispatcher {
public:
  void set_credit(replica_id x, uint32_t credit) override {
    credit_[x] = credit;
  }

  void remove(replica_id x) override { credit_.erase(x); }

  std::optional<replica_id> next() const override {
    if (credit_.empty())
      return std::nullopt;
    auto i = credit_.upper_bound(last_);
    if (i == credit_.end())
      i = credit_.begin();
    return i->second > 0 ? std::optional{i->first} : std::nullopt;
  }

  void given(replica_id x) override { last_ = x; }

private:
  std::map<replica_id, uint32_t> credit_;
  replica_id last_ = 0;
};

class weighted : public dispatcher {
public:
  void set_credit(replica_id x, uint32_t credit) override {
    auto& at = places_[x];
    if (at.able == (credit > 0))
      return;
    if (at.able)
      able_.erase({at.pass, x});
    at.able = credit > 0;
    if (!at.able)
      return;
    at.pass = std::max(at.pass, pass_);
    able_.emplace(at.pass, x);
  }

  void remove(replica_id x) override {
    set_credit(x, 0);
    places_.erase(x);
  }

  void set_weight(replica_id x, double weight) override {
    places_[x].weight = weight;
  }

  std::optional<replica_id> next() const override {
    if (able_.empty())
      return std::nullopt;
    return able_.begin()->second;
  }

  void given(replica_id x) override {
    auto& at = places_.at(x);
    pass_ = std::max(pass_, at.pass);
    auto after = at.pass + 1 / at.weight;
    if (at.able) {
      able_.erase({at.pass, x});
      able_.emplace(after, x);
    }
    at.pass = after;
  }

private:
  struct place {
    double weight = 1;
    double pass = 0; ///< batches it was given, divided by its weight
    bool able = false;
  };

  double pass_ = 0; ///< of the replica that got the last batch
  std::unordered_map<replica_id, place> places_;
  std::set<std::pair<double, replica_id>> able_;
};

} // namespace

std::unique_ptr<dispatcher> make_dispatcher(dispatch_policy x,
                                            random_stream random) {
  if (x == dispatch_policy::round_robin)
    return std::make_unique<round_robin>();
  if (x == dispatch_policy::in_turn)
    return std::make_unique<in_turn>();
  return std::make_unique<pull>(random);
}

std::unique_ptr<dispatcher> make_weighted_dispatcher() {
  return std::make_unique<weighted>();
}

} // namespace millrace
