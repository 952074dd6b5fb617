// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <iostream>

#include "actors/cache/cache.hpp"
#include "millrace/print.hpp"
#include "models/confined/confined_backend.hpp"
#include "models/import/import.hpp"
#include "models/import/verification.hpp"
#include "models/travelling_bundle.hpp"
#include "runtime/text.hpp"
#include "transport/objects/bundle_index.hpp"

namespace millrace {

namespace {

struct model_options {
  std::string store = "bundles";
  std::string name;
  std::string version;
  std::string alias = "default";
  std::vector<std::string> inputs;
  std::string labels;
  std::optional<double> accuracy;
  std::string accuracy_data;
  bool trusted = false;
  std::string memory = "4GiB";
  std::string limit = "2min";
  std::string layer_size = "64KiB";
  import_request request;
};

result<std::vector<std::string>> read_labels(const std::string& path) {
  std::ifstream in{path};
  if (!in)
    return error{ec::bad_request, path + ": cannot be opened", {}};
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    if (!line.empty())
      out.push_back(line);
  return out;
}

/// The backend that runs imported or verified models: confined, or with this
/// program's rights.
result<std::shared_ptr<backend>> runner_for(const model_options& x) {
  // The same minimum as for nodes. OpenBLAS may need more and retries forever;
  // the time limit covers that, too.
  constexpr byte_count least{uint64_t{64} << 20};
  auto limit = parse_duration(x.limit);
  if (!limit)
    return std::move(limit.failure()).within("--limit");
  auto memory = parse_bytes(x.memory);
  if (!memory)
    return std::move(memory.failure()).within("--memory");
  if (*memory < least)
    return error{ec::bad_request,
                 "--memory " + x.memory + ": expected at least "
                   + format_bytes(least.value),
                 {}};
  if (x.trusted)
    return torch_backend(code_trust::full);
  return confined::make_confined_backend({*memory, *limit});
}

int run_import(model_options& x, const common_options& common) {
  for (auto& text : x.inputs) {
    auto spec = parse_tensor_spec(text);
    if (!spec)
      return fail(common, spec.failure());
    x.request.inputs.push_back(std::move(*spec));
  }
  if (!x.labels.empty()) {
    auto labels = read_labels(x.labels);
    if (!labels)
      return fail(common, labels.failure());
    x.request.labels = std::move(*labels);
  }
  if (x.accuracy)
    x.request.accuracy = accuracy_info{*x.accuracy, "top-1", x.accuracy_data};
  x.request.name = x.name;
  auto least = parse_bytes(x.layer_size);
  if (!least)
    return fail(common, std::move(least.failure()).within("--layer-size"));
  x.request.layers.least = least->value;
  auto runner = runner_for(x);
  if (!runner)
    return fail(common, runner.failure());
  bundle_store store{x.store};
  auto done = import_torchscript(**runner, x.request, store, [&](auto step) {
    if (!common.json)
      std::cerr << "  " << step << std::endl;
  });
  if (!done)
    return fail(common, done.failure());
  if (common.json) {
    auto out = to_json(done->info);
    out["directory"] = done->directory;
    out["remarks"] = done->remarks;
    std::cout << json_text(out) << std::endl;
    return exit_ok;
  }
  auto specs = [](auto& xs) {
    return joined(xs, ", ", [](auto& s) { return to_string(s); });
  };
  std::cout << done->directory << "\n  inputs   "
            << specs(done->info.signature.inputs) << "\n  outputs  "
            << specs(done->info.signature.outputs) << "\n  weights  "
            << format_bytes(done->info.weights.bytes) << "\n  layers   "
            << done->info.layers.size() << std::endl;
  for (auto& remark : done->remarks)
    std::cout << "  note: " << printable(remark) << std::endl;
  return exit_ok;
}

int list_bundles(const model_options& x, const common_options& common) {
  if (!std::filesystem::is_directory(x.store))
    return fail(common, {ec::bad_request,
                         x.store
                           + ": is no directory (expected one of bundles,"
                             " as --store)",
                         {}});
  bundle_store store{x.store};
  auto list = store.list();
  if (common.json) {
    auto out = json::object();
    out["models"] = json::array();
    for (auto& m : list.good) {
      auto y = to_json(m.content.info);
      y["aliases"] = m.aliases;
      out["models"].push_back(std::move(y));
    }
    out["broken"] = json::array();
    for (auto& e : list.broken)
      out["broken"].push_back(e.text);
    std::cout << json_text(out) << std::endl;
    return list.broken.empty() ? exit_ok : exit_failed;
  }
  std::vector<std::vector<std::string>> rows{
    {"MODEL", "VERSION", "ALIASES", "APPLICATION", "ACCURACY", "WEIGHTS"}};
  for (auto& [content, names] : list.good) {
    auto& m = content.info;
    auto aliases = joined(names, ",", [](auto& alias) { return alias; });
    rows.push_back({m.name, std::to_string(m.version),
                    aliases.empty() ? "-" : aliases,
                    m.application.empty() ? "-" : m.application,
                    m.accuracy ? fixed(100 * m.accuracy->value, 1) + " %" : "-",
                    format_bytes(m.weights.bytes)});
  }
  print_table(rows);
  for (auto& e : list.broken)
    std::cerr << "broken: " << printable(e.text) << std::endl;
  return list.broken.empty() ? exit_ok : exit_failed;
}

int run_verify(const model_options& x, const common_options& common) {
  bundle_store store{x.store};
  auto directory = store.find(x.name, x.version);
  if (!directory)
    return fail(common, directory.failure());
  auto content = store.open(x.name, x.version, verify::hashes);
  if (!content)
    return fail(common, content.failure());
  auto runner = runner_for(x);
  if (!runner)
    return fail(common, runner.failure());
  auto shared = std::make_shared<bundle>(std::move(*content));
  auto compared = verify_by_running(**runner, shared);
  if (!compared)
    return fail(common, compared.failure());
  auto layers = shared->info.layers.size();
  if (common.json) {
    std::cout << json_text(json{{"directory", *directory},
                                {"ok", true},
                                {"layers", layers},
                                {"compared", *compared}})
              << std::endl;
    return exit_ok;
  }
  std::cout << *directory << ": every byte matches the manifest, and the model"
            << " runs";
  if (layers > 1)
    std::cout << "; its " << layers << " layers, run one by one, compute the"
              << " same as the whole model";
  if (*compared)
    std::cout << "; its outputs equal those at the import";
  std::cout << std::endl;
  return exit_ok;
}

/// Writes the index.yaml for a folder that is copied to an object store.
int write_index(const model_options& x, const common_options& common) {
  bundle_store store{x.store};
  auto list = store.list();
  if (!list.broken.empty())
    return fail(common, list.broken.front());
  bundle_index index;
  for (auto& m : list.good) {
    if (m.content.info.format < bundle_format)
      return fail(common, travelling::pieces_of(m.content).failure());
    index.models.push_back(describe(m.content, m.aliases));
  }
  auto path = x.store + "/" + index_file;
  auto text = print_index(index);
  if (auto done = write_file(path, std::as_bytes(std::span{text})); !done)
    return fail(common, done.failure());
  if (common.json)
    std::cout << json_text(
      json{{"index", path}, {"models", index.models.size()}})
              << std::endl;
  else
    std::cout << path << ": " << counted(index.models.size(), "model")
              << "; put " << x.store
              << " where nodes find it (object_stores in their config)"
              << std::endl;
  return exit_ok;
}

int run_alias(const model_options& x, const common_options& common,
              bool rollback) {
  bundle_store store{x.store};
  uint64_t version = 0;
  if (rollback) {
    auto done = store.rollback(x.name, x.alias);
    if (!done)
      return fail(common, done.failure());
    version = *done;
  } else {
    auto meant = store.resolve(x.name, x.version);
    if (!meant)
      return fail(common, meant.failure());
    version = *meant;
    if (auto done = store.set_alias(x.name, x.alias, version); !done)
      return fail(common, done.failure());
  }
  if (common.json)
    std::cout << json_text(
      json{{"model", x.name}, {"alias", x.alias}, {"version", version}})
              << std::endl;
  else
    std::cout << x.name << ": " << x.alias << " is version " << version
              << std::endl;
  return exit_ok;
}

/// Adds the options of `model import` only.
void add_import_options(CLI::App& verb,
                        const std::shared_ptr<model_options>& x) {
  verb.add_option("file", x->request.path, "The TorchScript file")
    ->required()
    ->check(CLI::ExistingFile);
  verb.add_option("--name", x->name, "Name of the model")->required();
  verb
    .add_option("--version", x->request.version,
                "Version; default: one more than the newest")
    ->check(CLI::Range(1.0, 0x1p53));
  verb.add_option("--input", x->inputs,
                  "An input as NAME:DTYPE:EXTENTS, like image:F32:-1,64"
                  " (-1: any); once per input");
  verb.add_option("--output", x->request.output_names,
                  "Name of an output; once per output");
  verb
    .add_option("--batch-axis", x->request.batch_axis,
                "Axis along which requests share a batch; -1: never")
    ->capture_default_str();
  verb.add_flag("--rows-independent", x->request.rows_independent,
                "Declare that rows of a batch do not change each other's "
                "results; default: tested");
  verb.add_flag("--stateful", x->request.stateful,
                "Accept a model that keeps state between requests");
  verb.add_option("--labels", x->labels, "File of class labels, one a line");
  verb.add_option("--expect", x->request.expected,
                  "Safetensors file with input/NAME for each input and "
                  "output/0, output/1, ...: example inputs and the model's "
                  "outputs, which the imported model must reproduce");
  verb
    .add_option("--sample", x->request.sample,
                "File of numpy.savez with an array for each input, by name: "
                "example inputs for a model that does not accept random "
                "numbers; kept in the bundle")
    ->check(CLI::ExistingFile);
  verb.add_option("--application", x->request.application,
                  "Application of which the model is a variant");
  verb.add_option("--accuracy", x->accuracy, "Measured accuracy, 0 to 1");
  verb.add_option("--accuracy-data", x->accuracy_data,
                  "Data set on which the accuracy was measured");
  verb.add_option("--licence", x->request.licence, "Licence of the model");
  verb.add_option("--description", x->request.description, "One sentence");
  verb
    .add_option("--depth", x->request.layers.depth,
                "Depth of module names at which the model is cut into layers; "
                "0: one layer")
    ->capture_default_str()
    ->check(CLI::Range(0, 64))
    ->each([x](const std::string&) { x->request.must_cut = true; });
  verb
    .add_option("--most-layers", x->request.layers.most,
                "Limit for the number of layers; neighbours are merged")
    ->capture_default_str()
    ->check(CLI::Range(1, 128));
  verb
    .add_option("--layer-size", x->layer_size,
                "Minimum bytes of parameters in a layer")
    ->capture_default_str();
}

} // namespace

void add_model_verb(CLI::App& app, common_options& common, verb_action& run) {
  auto x = std::make_shared<model_options>();
  auto* model = app.add_subcommand("model", "Work with bundles");
  model->require_subcommand(1);
  auto add = [&](const char* name, const char* help, auto action) {
    auto* verb = add_subverb(*model, name, help, common, run,
                             [=, &common] { return action(*x, common); });
    verb->add_option("--store", x->store, "Directory of bundles")
      ->capture_default_str();
    return verb;
  };
  auto add_confinement = [x](CLI::App* verb) {
    verb->add_flag("--trusted", x->trusted,
                   "Run the model's code with your rights, not confined");
    verb
      ->add_option("--memory", x->memory,
                   "Memory limit of a confined process, without its files")
      ->capture_default_str();
    verb
      ->add_option("--limit", x->limit,
                   "Time limit to load the model, and to run it once")
      ->capture_default_str();
  };
  auto* importer =
    add("import", "Turn a TorchScript file into a bundle", run_import);
  add_import_options(*importer, x);
  add_confinement(importer);
  add("list", "List bundles", list_bundles);
  add("index", "Write index.yaml, for use as an object store", write_index);
  auto* verify =
    add("verify", "Verify every byte of a bundle, and run it", run_verify);
  verify->add_option("name", x->name, "Model")->required();
  verify->add_option("version", x->version,
                     "Version or alias; default: default");
  add_confinement(verify);
  add_layers_verb(*model, common, run);
  add_cuts_verb(*model, common, run);
  auto* alias = add("alias", "Point an alias to a version",
                    [](auto& y, auto& c) { return run_alias(y, c, false); });
  alias->add_option("name", x->name, "Model")->required();
  alias->add_option("alias", x->alias, "Alias, like stable")->required();
  alias->add_option("version", x->version, "Version")->required();
  auto* rollback = add("rollback", "Point an alias to its previous version",
                       [](auto& y, auto& c) { return run_alias(y, c, true); });
  rollback->add_option("name", x->name, "Model")->required();
  rollback->add_option("alias", x->alias, "Alias")->capture_default_str();
}

} // namespace millrace
