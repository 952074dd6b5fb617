// SPDX-License-Identifier: Apache-2.0
#include "actors/router/dispatch.hpp"

namespace millrace {

namespace {

class pull : public dispatcher {
public:
  void set_credit(replica_id x, uint32_t credit) override {
    auto& known = credits_[x];
    ranked_.erase({-int64_t{known}, x});
    known = credit;
    if (credit > 0)
      ranked_.emplace(-int64_t{credit}, x);
    else
      credits_.erase(x);
  }

  std::optional<replica_id> next() const override {
    if (ranked_.empty())
      return std::nullopt;
    return ranked_.begin()->second;
  }

private:
  std::unordered_map<replica_id, uint32_t> credits_;
  std::set<std::pair<int64_t, replica_id>> ranked_;
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

std::unique_ptr<dispatcher> make_dispatcher(dispatch_policy x) {
  if (x == dispatch_policy::round_robin)
    return std::make_unique<round_robin>();
  return std::make_unique<pull>();
}

} // namespace millrace
