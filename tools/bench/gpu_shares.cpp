// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "bench/gpu_environment.hpp"

namespace millrace {

namespace {

/// Profiles keep shares by MPS and by partitions in different dimensions.
void note_share(gpu_environment& on, const workload& x, double share,
                bool by_mps, double alone, double together) {
  std::map<std::string, double> where{{"share", share}};
  if (by_mps)
    where["mps"] = 1;
  on.profile_of(x.name).points.push_back(
    {on.kind(),
     static_cast<double>(x.rows),
     std::move(where),
     {{"execute_seconds", alone}, {"neighboured_seconds", together}}});
}

/// How two models share a GPU.
struct way {
  gpu_sharing sharing;
  isolation_mode where;
  double share = 0; ///< of the first model, 0 to 1; 0: no shares

  std::string label() const {
    auto out = std::string{to_string(sharing)};
    return sharing == gpu_sharing::time
             ? out + " by " + std::string{to_string(where)}
             : out;
  }
};

/// Two models that share a GPU.
struct couple {
  std::unique_ptr<measured_device> gpu;
  const workload* models[2];
  instance_id ids[2] = {0, 0};
};

/// The seconds of a batch of each model, while the other model runs, too.
result<std::array<double, 2>> run_both(couple& x) {
  constexpr size_t enough = 300;
  result<double> took[2] = {0., 0.};
  std::atomic<int> left{2};
  auto loop = [&](int i) {
    std::vector<double> all;
    while (left > 0) { // later batches keep the other model's GPU busy
      auto one = x.gpu->run(x.ids[i], x.models[i]->inputs);
      if (!one) {
        took[i] = one.failure();
        left = 0;
        return;
      }
      all.push_back(*one);
      if (all.size() == enough)
        --left;
    }
    took[i] = median(std::move(all));
  };
  {
    std::jthread other{[&] { loop(1); }};
    loop(0);
  }
  for (auto& t : took)
    if (!t)
      return t.failure();
  return std::array{*took[0], *took[1]};
}

result<couple> load_both(gpu_environment& on, const way& how, const workload& a,
                         const workload& b,
                         const std::array<double, 2>& shares) {
  if (how.sharing == gpu_sharing::mps) // inherited by the models' processes
    ::setenv("CUDA_MPS_PIPE_DIRECTORY", on.options().mps.c_str(), 1);
  auto made = on.device(how.where, {.sharing = how.sharing}, 4);
  ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  if (!made)
    return made.failure();
  couple out{std::move(*made), {&a, &b}};
  for (size_t i = 0; i < 2; ++i) {
    auto loaded =
      out.gpu->load(out.models[i]->content, out.models[i]->rows, shares[i]);
    if (!loaded)
      return loaded.failure();
    out.ids[i] = loaded->id;
  }
  return out;
}

/// `whole`: times alone on the whole GPU, set by the first measurement.
result<void> measure_way(gpu_environment& on, const way& how, const workload& a,
                         const workload& b, std::array<double, 2>& whole) {
  std::array shares{how.share, how.share > 0 ? 1 - how.share : 0};
  auto both = load_both(on, how, a, b, shares);
  if (!both)
    return both.failure();
  std::array<double, 2> alone{};
  for (size_t i = 0; i < 2; ++i) {
    auto took = both->gpu->latency(both->ids[i], both->models[i]->inputs, 200);
    if (!took)
      return took.failure();
    alone[i] = *took;
    if (whole[i] == 0)
      whole[i] = *took;
  }
  auto together = run_both(*both);
  if (!together)
    return together.failure();
  for (size_t i = 0; i < 2; ++i) {
    auto& x = *both->models[i];
    auto name = x.label() + ", " + how.label();
    if (shares[i] > 0)
      name += " " + format_number(100 * shares[i]) + " %";
    auto add = [&](const char* when, double took) {
      on.add({name + when, 1e6 * took, "us", 1e6 * whole[i],
              "alone on the whole GPU", took / whole[i]});
    };
    add(", alone", alone[i]);
    add(", together", (*together)[i]);
    if (shares[i] > 0)
      note_share(on, x, shares[i], how.sharing == gpu_sharing::mps, alone[i],
                 (*together)[i]);
  }
  return {};
}

} // namespace

result<void> measure_shares(gpu_environment& on) {
  auto a = on.find("resnet18", 8);
  auto b = on.find("bert-base", 1);
  if (!a || !b)
    return a ? b.failure() : a.failure();
  using enum isolation_mode;
  std::vector<way> ways{{gpu_sharing::time, device},
                        {gpu_sharing::time, process},
                        {gpu_sharing::streams, device}};
  for (auto share : {.25, .5, .75})
    ways.push_back({gpu_sharing::partitions, device, share});
  if (!on.options().mps.empty())
    for (auto share : {0., .25, .5, .75})
      ways.push_back({gpu_sharing::mps, process, share});
  std::array<double, 2> whole{};
  for (auto& w : ways)
    if (auto done = measure_way(on, w, *a, *b, whole); !done)
      return done;
  return {};
}

} // namespace millrace
