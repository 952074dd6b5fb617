// SPDX-License-Identifier: Apache-2.0
#include "models/import.hpp"

#include "models/trial.hpp"
#include "runtime/hash.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

constexpr auto layer_name = "model";
constexpr auto code_file = "layers/model.pt";
constexpr auto weights_file = "weights.safetensors";

/// Beyond what JSON's numbers carry nothing counts versions.
constexpr uint64_t max_version = uint64_t{1} << 53;

std::string plausible_inputs(const model_parts& parts) {
  return joined(parts.inputs, " ",
                [](auto& x) { return "--input " + x.name + ":F32:-1,..."; });
}

/// Whether inputs can go by these names: those of forward's own arguments are
/// for these only, since by position another would get what is meant for one.
result<void> check_input_names(const std::vector<tensor_spec>& given,
                               const model_parts& parts) {
  for (size_t i = 0; i < given.size(); ++i)
    for (size_t k = 0; k < parts.inputs.size(); ++k)
      if (i != k && given[i].name == parts.inputs[k].name)
        return error{
          ec::bad_request,
          "input " + shown(given[i].name) + " was given as number "
            + std::to_string(i + 1) + ", forward takes it as number "
            + std::to_string(k + 1) + " (expected in its order: "
            + joined(parts.inputs, ", ", [](auto& x) { return x.name; }) + ")"};
  return {};
}

/// The inputs as given, or the one input of a model whose first parameter is a
/// matrix: rows of as many numbers as it has columns.
result<std::vector<tensor_spec>> choose_inputs(const import_request& x,
                                               const model_parts& parts) {
  for (auto& input : parts.inputs)
    if (input.type != "Tensor" && !input.type.ends_with("?"))
      return error{ec::bad_request,
                   "forward takes " + shown(input.name) + " of type "
                     + shown(input.type, 200)
                     + "; only tensors can be served (wrap the model in a"
                       " module whose forward takes tensors)"};
  if (!x.inputs.empty()) {
    if (x.inputs.size() > parts.inputs.size())
      return error{
        ec::bad_request,
        std::to_string(x.inputs.size())
          + " inputs were given,"
            " forward takes "
          + std::to_string(parts.inputs.size()) + " ("
          + joined(parts.inputs, ", ", [](auto& i) { return i.name; }) + ")"};
    if (auto fine = check_input_names(x.inputs, parts); !fine)
      return fine.failure();
    return x.inputs;
  }
  if (parts.inputs.empty())
    return error{ec::bad_request,
                 "forward takes no tensor: there would be nothing to ask it"};
  if (parts.inputs.size() == 1)
    for (auto& p : parts.parameters)
      if (p.value.extents.rank() > 1) {
        if (p.value.extents.rank() != 2)
          break;
        return std::vector{tensor_spec{
          parts.inputs[0].name, p.value.type, {-1, p.value.extents[1]}}};
      }
  return error{ec::bad_request,
               "the shapes of the inputs cannot be read from the file; give "
                 + plausible_inputs(parts)
                 + " with the extents of a batch (-1 where any number fits)"};
}

/// What can be said of a request before the file is looked at.
result<void> check_request(const import_request& x) {
  if (auto fine = check_name("model", x.name); !fine)
    return fine;
  if (!x.application.empty())
    if (auto fine = check_name("application", x.application); !fine)
      return fine;
  if (x.version > max_version)
    return error{ec::bad_request, "version " + std::to_string(x.version)
                                    + ": expected at most "
                                    + std::to_string(max_version)};
  if (x.accuracy && !(x.accuracy->value >= 0 && x.accuracy->value <= 1))
    return error{ec::bad_request, "accuracy " + format_number(x.accuracy->value)
                                    + ": expected a share between 0 and 1"};
  return {};
}

/// Class labels name the columns of the first output.
result<void> check_labels(const import_request& x, const signature& s) {
  if (x.labels.empty())
    return {};
  auto& extents = s.outputs[0].extents;
  auto columns = extents.empty() ? 1 : extents.back();
  if (columns < 0 || static_cast<size_t>(columns) == x.labels.size())
    return {};
  return error{ec::bad_request, std::to_string(x.labels.size())
                                  + " labels were given, output "
                                  + to_string(s.outputs[0]) + " has "
                                  + std::to_string(columns) + " columns"};
}

bundle assemble(const import_request& x, uint64_t version, model_parts& parts) {
  bundle out;
  for (auto& p : parts.parameters)
    out.weights.push_back(
      {std::string{layer_name} + "/" + p.name, std::move(p.value)});
  out.code.push_back(shared_bytes::copy_of(parts.code));
  auto& info = out.info;
  info.format = bundle_format;
  info.name = x.name;
  info.version = version;
  info.application = x.application;
  info.description = x.description;
  info.accuracy = x.accuracy;
  info.licence = x.licence;
  info.labels = x.labels;
  info.generator = "millrace model import";
  info.precision = out.weights.empty()
                     ? "F32"
                     : std::string{to_string(out.weights.front().value.type)};
  info.layers.push_back({layer_name, code_file, parts.code.size(),
                         sha256_hex(out.code[0].view()), "",
                         out.weights.size()});
  return out;
}

/// Writes the weights' file, and gives it to the bundle as if that had been
/// opened from it.
result<void> add_weights(bundle& x, std::string& file) {
  auto text = write_safetensors(x.weights);
  if (!text)
    return text.failure();
  file = std::move(*text);
  auto bytes = std::as_bytes(std::span{file});
  x.info.weights = {weights_file, bytes.size(), sha256_hex(bytes)};
  x.info.layers[0].parameters_sha256 = x.info.weights.sha256;
  const_bytes parts[] = {bytes};
  auto sealed = seal_in_memory(parts);
  if (!sealed)
    return sealed.failure();
  x.weights_file = std::make_shared<const file_descriptor>(std::move(*sealed));
  return {};
}

} // namespace

result<import_report>
import_torchscript(backend& runner, const import_request& x,
                   bundle_store& target,
                   const std::function<void(std::string)>& progress) {
  if (auto fine = check_request(x); !fine)
    return fine.failure();
  auto there = target.versions(x.name);
  auto version = x.version != 0  ? x.version
                 : there.empty() ? 1
                                 : there.back() + 1;
  if (auto room = target.check_room(x.name, version); !room)
    return room.failure();
  progress("taking " + x.path + " apart with " + runner.describe());
  auto file = map_file(x.path);
  if (!file)
    return file.failure();
  auto parts = runner.take_apart(*file);
  if (!parts)
    return std::move(parts.failure()).within(x.path);
  auto inputs = choose_inputs(x, *parts);
  if (!inputs)
    return std::move(inputs.failure()).within(x.path);
  import_report out;
  auto content = std::make_shared<bundle>(assemble(x, version, *parts));
  auto& info = content->info;
  info.signature.inputs = std::move(*inputs);
  info.signature.batch_axis = x.batch_axis;
  if (auto fine = check_samples(info.signature); !fine)
    return fine.failure();
  if (content->weights.empty())
    out.remarks.push_back("the file has no parameters of its own (a frozen"
                          " module?), so replicas cannot share them");
  std::map<std::string, std::string> files{
    {code_file, std::string{content->code[0].text()}}};
  if (!content->weights.empty())
    if (auto done = add_weights(*content, files[weights_file]); !done)
      return done.failure();
  progress("running it to learn its outputs");
  auto stage = runner.load(content, 0, 1);
  if (!stage)
    return stage.failure();
  auto learned = learn_outputs(**stage, x.output_names, info.signature);
  if (!learned)
    return std::move(learned.failure()).within(x.path);
  out.remarks.insert(out.remarks.end(), learned->begin(), learned->end());
  if (auto fine = check_signature(info.signature); !fine)
    return std::move(fine.failure()).within(x.path);
  if (auto fine = check_labels(x, info.signature); !fine)
    return fine.failure();
  progress("writing the bundle");
  auto directory = target.add(info, files);
  if (!directory)
    return directory.failure();
  if (auto known = target.aliases(x.name);
      known && (*known)["default"] != version)
    out.remarks.push_back("version " + std::to_string((*known)["default"])
                          + " stays the default; millrace model alias " + x.name
                          + " default " + std::to_string(version)
                          + " moves it");
  out.info = info;
  out.directory = std::move(*directory);
  return out;
}

} // namespace millrace
