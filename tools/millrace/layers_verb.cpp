// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <numeric>

#include "millrace/print.hpp"
#include "models/bundle_store.hpp"
#include "models/crossing.hpp"
#include "models/partition/cuts.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

struct layers_options {
  std::string store = "bundles";
  std::string name;
  std::string version;
  std::vector<uint64_t> cuts;
};

/// A range of layers, shown in one row.
struct shown_stage {
  size_t first, last; ///< one past
  uint64_t parameter_bytes = 0;
  size_t tensors = 0;          ///< crossing the cut after this stage
  uint64_t bytes_of_a_row = 0; ///< bytes of these tensors, per row
};

/// The cuts between the rows: between all layers, or as given.
result<std::vector<size_t>> cuts_of(const layers_options& x, size_t layers) {
  if (auto fine = check_cuts({1, x.cuts, {}, 1}, layers); !fine)
    return std::move(fine.failure()).within("--cuts");
  std::vector<size_t> out{x.cuts.begin(), x.cuts.end()};
  if (out.empty() && layers > 1) {
    out.resize(layers - 1);
    std::iota(out.begin(), out.end(), size_t{1});
  }
  return out;
}

result<std::vector<shown_stage>> stages_of(const manifest& x,
                                           const std::vector<size_t>& cuts) {
  std::vector<shown_stage> out;
  size_t first = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    auto last = i < cuts.size() ? cuts[i] : x.layers.size();
    auto behind = zeros_across(x, last, 1);
    if (!behind)
      return behind.failure();
    shown_stage stage{first, last, 0, behind->size(), bytes_of(*behind)};
    for (auto at = first; at < last; ++at)
      stage.parameter_bytes += x.layers[at].parameter_bytes;
    out.push_back(stage);
    first = last;
  }
  return out;
}

/// "1 4": numbers of layers or stages.
std::string numbers(const std::set<size_t>& xs) {
  auto out = joined(xs, " ", [](auto x) { return std::to_string(x); });
  return out.empty() ? "-" : out;
}

std::string name_of(const manifest& x, const shown_stage& stage) {
  auto& first = x.layers[stage.first].name;
  auto& last = x.layers[stage.last - 1].name;
  return stage.last - stage.first == 1 ? first : first + " to " + last;
}

int run_layers(const layers_options& x, const common_options& common) {
  bundle_store store{x.store};
  auto content = store.open(x.name, x.version, verify::sizes);
  if (!content)
    return fail(common, content.failure());
  auto& info = content->info;
  auto cuts = cuts_of(x, info.layers.size());
  if (!cuts)
    return wrong_call(common, cuts.failure());
  auto stages = stages_of(info, *cuts);
  if (!stages)
    return fail(common, stages.failure());
  auto graph = stage_graph(info, *cuts);
  table rows{{x.cuts.empty() ? "LAYER" : "PART", "PARAMETERS", "BEHIND IT",
              "TENSORS", "FROM", "TO", "NAME"}};
  auto out = json::array();
  for (size_t i = 0; i < stages->size(); ++i) {
    auto& stage = (*stages)[i];
    auto& [from, to] = graph[i];
    rows.push_back({std::to_string(i), format_bytes(stage.parameter_bytes),
                    format_bytes(stage.bytes_of_a_row),
                    std::to_string(stage.tensors), numbers(from), numbers(to),
                    name_of(info, stage)});
    out.push_back({{"first_layer", stage.first},
                   {"last_layer", stage.last - 1},
                   {"name", name_of(info, stage)},
                   {"parameter_bytes", stage.parameter_bytes},
                   {"crossing_tensors", stage.tensors},
                   {"crossing_bytes_of_a_row", stage.bytes_of_a_row},
                   {"takes_from", from},
                   {"gives_to", to}});
  }
  if (common.json) {
    std::cout << json_text(json{{"model", info.name},
                                {"version", info.version},
                                {"stages", std::move(out)}})
              << std::endl;
    return exit_ok;
  }
  print_table(rows);
  auto extent = info.signature.usual_extent;
  std::cout
    << "\nBEHIND IT: bytes that a request of one row sends over a cut"
       " behind it, in TENSORS"
    << (extent > 1 ? ";\nof " + std::to_string(extent) + " along each free axis"
                   : "")
    << ".\nFROM, TO: the sources of its inputs, and the users of its outputs."
    << std::endl;
  return exit_ok;
}

} // namespace

void add_layers_verb(CLI::App& model, common_options& common,
                     verb_action& run) {
  auto x = std::make_shared<layers_options>();
  auto* verb = add_subverb(
    model, "layers",
    "A bundle's layers, and the tensors that cross cuts between them", common,
    run, [=, &common] { return run_layers(*x, common); });
  verb->add_option("--store", x->store, "Directory of bundles")
    ->capture_default_str();
  verb
    ->add_option("--cuts", x->cuts,
                 "Show stages instead of layers: the layers that begin a "
                 "stage, as cuts: in a configuration")
    ->delimiter(',')
    ->transform(whole_number(1));
  verb->add_option("name", x->name, "Model")->required();
  verb->add_option("version", x->version, "Version or alias; default: default");
}

} // namespace millrace
