// SPDX-License-Identifier: Apache-2.0

/// \file
/// `millrace-bench gpu`: the runtime on a GPU, compared with LibTorch alone.

#include <optional>
#include <thread>

#include "bench/gpu_environment.hpp"
#include "millrace/print.hpp"
#include "models/gpu/nvml.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

class gpu_bench {
public:
  gpu_bench(gpu_environment environment, progress_bar& bar)
    : on_(std::move(environment)),
      bar_(bar) {}

  result<bench_report> run() {
    auto& only = on_.options().only;
    for (auto& [name, part] : parts()) {
      if (!only.empty()
          && std::find(only.begin(), only.end(), name) == only.end())
        continue;
      bar_.show(done_++ / static_cast<double>(parts().size()), name);
      if (auto done = part(*this); !done)
        return std::move(done.failure()).within(name);
    }
    if (auto done = on_.write_profile(); !done)
      return done.failure();
    return std::move(on_.found());
  }

  /// The parts of the bench by name, in order.
  static const std::vector<
    std::pair<std::string, std::function<result<void>(gpu_bench&)>>>&
  parts() {
    static const std::vector<
      std::pair<std::string, std::function<result<void>(gpu_bench&)>>>
      out{{"load", &gpu_bench::measure_loads},
          {"call", &gpu_bench::measure_calls},
          {"throughput", &gpu_bench::measure_throughput},
          {"kernels", [](auto& x) { return measure_kernels(x.on_); }},
          {"share", [](auto& x) { return measure_shares(x.on_); }},
          {"cycles", &gpu_bench::measure_cycles}};
    return out;
  }

private:
  /// Copies parameters to the GPU, compared with a page-locked copy.
  result<void> measure_loads() {
    auto x = on_.find("gigabyte", 1);
    if (!x)
      return x.failure();
    paired found;
    auto bytes = x->content->info.weights.bytes;
    for (int i = 0; i < on_.options().rounds + 1; ++i) {
      auto bare = on_.ask_bare({"copy"});
      if (!bare)
        return bare.failure();
      auto stage =
        on_.runner().load(x->content, 0, x->content->info.layers.size(),
                          gpu_place{on_.options().gpu});
      if (!stage)
        return stage.failure();
      result<void> done;
      auto took = seconds_of([&] { done = (*stage)->arrive(); });
      if (!done)
        return done;
      if (i > 0) // the first load allocates page-locked memory
        found.add(static_cast<double>(bytes) / took / 1e9, bare->at(0) / 1e9);
    }
    on_.add(found.row("parameters to the GPU, " + format_bytes(bytes), "GB/s",
                      "a page-locked copy"));
    return measure_first_results();
  }

  /// Milliseconds from a load to the first result.
  struct first_result {
    double open = 0, arrive = 0, pass = 0;
    double all() const { return open + arrive + pass; }
  };

  result<first_result> find_first_result(const workload& x,
                                         const gpu_place& how) {
    first_result out;
    result<std::unique_ptr<loaded_stage>> stage =
      std::unique_ptr<loaded_stage>{};
    out.open = 1e3 * seconds_of([&] {
                 stage = on_.runner().load(x.content, 0,
                                           x.content->info.layers.size(), how);
               });
    if (!stage)
      return stage.failure();
    result<void> there;
    auto arrive = [&] {
      there = (*stage)->arrive();
      if (!there) // otherwise a pass would wait for the parameters
        (*stage)->give_up_parameters();
    };
    std::optional<std::jthread> beside;
    if (how.pipelined)
      beside.emplace(arrive);
    else
      out.arrive = 1e3 * seconds_of(arrive);
    result<tensor_list> given = tensor_list{};
    out.pass = 1e3 * seconds_of([&] { given = (*stage)->run(x.inputs); });
    beside.reset();
    if (!there)
      return there.failure();
    return given ? result<first_result>{out} : given.failure();
  }

  /// Time to the first result if batches run before all parameters are on the
  /// GPU: a pass reads parameters from host memory, or each layer waits for its
  /// own parameters.
  result<void> measure_first_results() {
    auto x = on_.find("bert-base", 1);
    if (!x)
      return x.failure();
    gpu_place whole{.gpu = on_.options().gpu}, host = whole, pipelined = whole;
    host.parameters = gpu_parameters::host;
    pipelined.pipelined = true;
    paired all, pass, beside;
    for (int i = 0; i < on_.options().rounds + 1; ++i) {
      auto copied = find_first_result(*x, whole);
      auto read = copied ? find_first_result(*x, host) : copied;
      auto both = read ? find_first_result(*x, pipelined) : read;
      if (!both)
        return both.failure();
      if (i > 0) { // the first run fills caches for later runs
        all.add(read->all(), copied->all());
        pass.add(read->pass, copied->arrive + copied->pass);
        beside.add(both->pass, copied->arrive + copied->pass);
      }
    }
    auto name = x->label() + ", parameters on the host, first ";
    on_.add(all.row(name + "load and batch", "ms", "copied to the GPU"));
    on_.add(pass.row(name + "batch alone", "ms", "to copy, and a batch"));
    on_.add(beside.row(x->label() + ", pipelined, first batch", "ms",
                       "to copy, and a batch"));
    return {};
  }

  /// A device with a loaded workload, and the measured figures.
  struct variant {
    std::string name;
    std::unique_ptr<measured_device> on;
    instance_id id = 0;
    paired found{};
  };

  result<variant> make_variant(std::string name, const workload& x,
                               result<std::unique_ptr<measured_device>> on) {
    if (!on)
      return on.failure();
    auto loaded = (*on)->load(x.content, x.rows);
    if (!loaded)
      return std::move(loaded.failure()).within(name);
    return variant{std::move(name), std::move(*on), loaded->id};
  }

  /// Measures each variant and LibTorch alone, interleaved by round.
  template <class Ours, class Bare>
  result<void> hold_against_bare(const workload& x,
                                 std::vector<variant>& variants,
                                 const char* unit, Ours ours, Bare of) {
    for (int i = 0; i < on_.options().rounds; ++i) {
      auto bare = on_.call_bare(x);
      if (!bare)
        return bare.failure();
      for (auto& v : variants) {
        auto figure = ours(v);
        if (!figure)
          return figure.failure();
        v.found.add(*figure, of(*bare));
      }
    }
    for (auto& v : variants)
      on_.add(v.found.row(x.label() + ", " + v.name, unit, "LibTorch alone"));
    return {};
  }

  /// Measures a batch from end to end.
  result<void> measure_calls() {
    for (auto [name, rows] : {std::pair{"resnet18", size_t{1}},
                              {"resnet18", 8},
                              {"bert-base", 1}}) {
      auto x = on_.find(name, rows);
      if (!x)
        return x.failure();
      std::vector<variant> variants;
      result<void> made;
      auto add = [&](isolation_mode where, const char* as,
                     const gpu_place& how) {
        auto y = make_variant("a batch, " + std::string{to_string(where)} + as,
                              *x, on_.device(where, how));
        if (y)
          variants.push_back(std::move(*y));
        else
          made = y.failure();
      };
      for (auto where : {isolation_mode::thread, isolation_mode::process}) {
        add(where, "", {.graphs = false});
        add(where, ", recorded", {});
        add(where, ", parameters on the host",
            {.parameters = gpu_parameters::host});
      }
      if (!made)
        return made;
      auto done = hold_against_bare(
        *x, variants, "us",
        [&](const variant& v) -> result<double> {
          auto took = v.on->latency(v.id, x->inputs, 300);
          return took ? result<double>{1e6 * *took} : took;
        },
        [](const bare_call& bare) { return 1e6 * bare.seconds; });
      if (!done)
        return done;
    }
    return {};
  }

  /// Small batches, one after the other, and with copies during other batches.
  result<void> measure_throughput() {
    auto x = on_.find("resnet18", 8);
    if (!x)
      return x.failure();
    std::vector<variant> variants;
    for (auto streaming : {false, true})
      for (auto graphs : {false, true}) {
        auto made = make_variant(
          std::string{"batches"}
            + (streaming ? " that overlap" : " one after the other")
            + (graphs ? ", recorded" : ""),
          *x,
          on_.device(isolation_mode::thread,
                     {.streaming = streaming, .graphs = graphs}));
        if (!made)
          return made.failure();
        variants.push_back(std::move(*made));
      }
    auto done = hold_against_bare(
      *x, variants, "1/s",
      [&](const variant& v) { return v.on->rate(v.id, x->inputs, 4, 500ms); },
      [](const bare_call& bare) { return bare.rate; });
    return done ? note_reading(*x, variants.back()) : done;
  }

  /// Adds the readings of the GPU's driver, if available, after two busy
  /// seconds.
  result<void> note_reading(const workload& x, const variant& v) {
    auto rate = v.on->rate(v.id, x.inputs, 4, 2s);
    if (!rate)
      return rate.failure();
    auto all = read_gpus();
    auto number = static_cast<size_t>(on_.options().gpu);
    if (!all || number >= all->size())
      return {};
    auto& now = (*all)[number];
    auto add = [&](const char* what, double value, const char* unit,
                   double most) {
      on_.add({std::string{"after that, "} + what, value, unit, most, "at most",
               most > 0 ? value / most : 0});
    };
    add("kernels at work", 100 * now.busy, "%", 100);
    add("clock", now.clock, "MHz", now.top_clock);
    add("power", now.watts, "W", now.most_watts);
    return {};
  }

  /// Memory of the GPU after many loads and unloads, next to a loaded model.
  result<void> measure_cycles() {
    auto x = on_.find("resnet18", 1);
    if (!x)
      return x.failure();
    for (auto where : {isolation_mode::thread, isolation_mode::device})
      if (auto done = load_and_unload(*x, where); !done)
        return done;
    return {};
  }

  result<void> load_and_unload(const workload& x, isolation_mode where) {
    auto on = on_.device(where, {.sharing = gpu_sharing::streams});
    if (!on)
      return on.failure();
    if (auto stays = (*on)->load(x.content, 1); !stays)
      return stays.failure();
    double before = 0;
    for (int i = 0; i <= on_.options().cycles; ++i) {
      auto loaded = (*on)->load(x.content, 1);
      if (!loaded)
        return loaded.failure();
      (*on)->unload(loaded->id);
      if (i == 0) { // the memory of the first load stays allocated
        auto now = settled_free_bytes();
        if (!now)
          return now.failure();
        before = *now;
      }
    }
    auto after = settled_free_bytes();
    if (!after)
      return after.failure();
    on_.add({"free memory after " + std::to_string(on_.options().cycles)
               + " loads of " + x.label() + " by "
               + std::string{to_string(where)},
             *after / 1e6, "MB", before / 1e6, "after the first one",
             *after / before});
    constexpr double not_each_time = 16'000'000;
    if (*after + not_each_time < before)
      return error{
        ec::internal,
        "the GPU has " + format_bytes(static_cast<uint64_t>(before - *after))
          + " less than before, after " + std::to_string(on_.options().cycles)
          + " loads and unloads",
        {}};
    return {};
  }

  /// Free bytes of the GPU, once constant: a process frees memory late.
  result<double> settled_free_bytes() {
    double out = -1;
    for (auto since = steady_now(); steady_now() < since + 500ms;) {
      auto all = on_.runner().gpus()->list();
      if (!all)
        return all.failure();
      auto& x = (*all)[static_cast<size_t>(on_.options().gpu)];
      auto now = static_cast<double>(x.free.value);
      if (now != out)
        since = steady_now();
      out = now;
    }
    return out;
  }

  gpu_environment on_;
  progress_bar& bar_;
  int done_ = 0;
};

} // namespace

void add_gpu_bench(CLI::App& bench, common_options& common, verb_action& run) {
  auto x = std::make_shared<gpu_options>();
  std::vector<std::string> names;
  for (auto& part : gpu_bench::parts())
    names.push_back(part.first);
  auto* verb = bench.add_subcommand(
    "gpu", "A GPU's loads, batches, shares and kernels, beside LibTorch alone");
  add_served_options(*verb, *x, "resnet18, bert-base and gigabyte");
  verb
    ->add_option("--files", x->files, "Folder of the models' TorchScript files")
    ->capture_default_str();
  verb->add_option("--gpu", x->gpu, "Number of the GPU")
    ->transform(whole_number(0, 63))
    ->capture_default_str();
  verb->add_option("--only", x->only, "Parts of the bench; default: all")
    ->check(CLI::IsMember(names));
  verb->add_option("--cycles", x->cycles, "Loads and unloads")
    ->transform(whole_number(1, 1'000'000))
    ->capture_default_str();
  verb
    ->add_option("--counters", x->counters,
                 "File of a profiler's counters (made by tools/gpu-check)")
    ->check(CLI::ExistingFile);
  verb->add_option(
    "--mps", x->mps,
    "Folder of a daemon of NVIDIA's MPS, to measure its shares, too");
  verb->add_option("--profile", x->profile,
                   "File to add the measured profile to");
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] {
      return report_on("gpu", common, [x](progress_bar& bar) {
        auto environment = gpu_environment::open(*x);
        return environment ? gpu_bench{std::move(*environment), bar}.run()
                           : result<bench_report>{environment.failure()};
      });
    };
  });
}

} // namespace millrace
