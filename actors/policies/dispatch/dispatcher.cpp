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

  void set_credit(replica_id replica, uint32_t credit) override {
    auto& at = places_[replica];
    take_out(at);
    at.credit = credit;
    if (credit >= by_credit_.size())
      by_credit_.resize(credit + 1);
    at.index = by_credit_[credit].size();
    by_credit_[credit].push_back(replica);
    most_ = std::max(most_, credit);
    while (most_ > 0 && by_credit_[most_].empty())
      --most_;
    lot_ = random_.next();
  }

  void remove(replica_id replica) override {
    set_credit(replica, 0);
    take_out(places_.at(replica));
    places_.erase(replica);
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
    size_t index = nowhere; ///< position in by_credit_[credit]
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
  uint64_t lot_ = 0; ///< redrawn on changes only: next() is repeatable
  // The lists keep their capacity, so that a batch allocates nothing.
  std::vector<std::vector<replica_id>> by_credit_;
  uint32_t most_ = 0; ///< largest credit of a replica
  std::unordered_map<replica_id, place> places_;
};

class round_robin : public dispatcher {
public:
  void set_credit(replica_id replica, uint32_t credit) override {
    if (credit > 0)
      able_.insert(replica);
    else
      able_.erase(replica);
  }

  void remove(replica_id replica) override { able_.erase(replica); }

  std::optional<replica_id> next() const override {
    if (able_.empty())
      return std::nullopt;
    auto i = able_.upper_bound(last_);
    return i == able_.end() ? *able_.begin() : *i;
  }

  void given(replica_id replica) override { last_ = replica; }

private:
  std::set<replica_id> able_;
  replica_id last_ = 0;
};

/// Strict: the order of replicas does not depend on their credit.
class in_turn : public dispatcher {
public:
  void set_credit(replica_id replica, uint32_t credit) override {
    credit_[replica] = credit;
  }

  void remove(replica_id replica) override { credit_.erase(replica); }

  std::optional<replica_id> next() const override {
    if (credit_.empty())
      return std::nullopt;
    auto i = credit_.upper_bound(last_);
    if (i == credit_.end())
      i = credit_.begin();
    return i->second > 0 ? std::optional{i->first} : std::nullopt;
  }

  void given(replica_id replica) override { last_ = replica; }

private:
  std::map<replica_id, uint32_t> credit_;
  replica_id last_ = 0;
};

class weighted : public dispatcher {
public:
  void set_credit(replica_id replica, uint32_t credit) override {
    auto& at = places_[replica];
    if (at.able == (credit > 0))
      return;
    if (at.able)
      able_.erase({at.pass, replica});
    at.able = credit > 0;
    if (!at.able)
      return;
    at.pass = std::max(at.pass, pass_);
    able_.emplace(at.pass, replica);
  }

  void remove(replica_id replica) override {
    set_credit(replica, 0);
    places_.erase(replica);
  }

  void set_weight(replica_id replica, double weight) override {
    places_[replica].weight = weight;
  }

  std::optional<replica_id> next() const override {
    if (able_.empty())
      return std::nullopt;
    return able_.begin()->second;
  }

  void given(replica_id replica) override {
    auto& at = places_.at(replica);
    pass_ = std::max(pass_, at.pass);
    auto after = at.pass + 1 / at.weight;
    if (at.able) {
      able_.erase({at.pass, replica});
      able_.emplace(after, replica);
    }
    at.pass = after;
  }

private:
  struct place {
    double weight = 1;
    double pass = 0; ///< dispatched batches, divided by the weight
    bool able = false;
  };

  double pass_ = 0; ///< of the replica that got the last batch
  std::unordered_map<replica_id, place> places_;
  std::set<std::pair<double, replica_id>> able_;
};

} // namespace

std::unique_ptr<dispatcher> make_dispatcher(dispatch_policy policy,
                                            random_stream random) {
  if (policy == dispatch_policy::round_robin)
    return std::make_unique<round_robin>();
  if (policy == dispatch_policy::in_turn)
    return std::make_unique<in_turn>();
  return std::make_unique<pull>(random);
}

std::unique_ptr<dispatcher> make_weighted_dispatcher() {
  return std::make_unique<weighted>();
}

} // namespace millrace
