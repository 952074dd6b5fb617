// SPDX-License-Identifier: Apache-2.0
#include "actors/router/dispatch.hpp"

#include <functional>
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
    if (auto old = places_.extract(x))
      take_out(old.mapped());
    if (credit > 0) {
      auto& equals = by_credit_[credit];
      places_[x] = {credit, equals.size()};
      equals.push_back(x);
    }
    lot_ = random_.next();
  }

  std::optional<replica_id> next() const override {
    if (by_credit_.empty())
      return std::nullopt;
    auto& equals = by_credit_.begin()->second;
    return equals[lot_ % equals.size()];
  }

private:
  struct place {
    uint32_t credit = 0;
    size_t index = 0; ///< among its equals
  };

  void take_out(place x) {
    auto equals = by_credit_.find(x.credit);
    auto last = equals->second.back();
    equals->second.pop_back();
    if (x.index < equals->second.size()) {
      equals->second[x.index] = last;
      places_[last].index = x.index;
    }
    if (equals->second.empty())
      by_credit_.erase(equals);
  }

  random_stream random_;
  uint64_t lot_ = 0; ///< stays while nothing changes: asking is not taking
  std::map<uint32_t, std::vector<replica_id>, std::greater<>> by_credit_;
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

} // namespace

std::unique_ptr<dispatcher> make_dispatcher(dispatch_policy x,
                                            random_stream random) {
  if (x == dispatch_policy::round_robin)
    return std::make_unique<round_robin>();
  return std::make_unique<pull>(random);
}

} // namespace millrace
