// SPDX-License-Identifier: Apache-2.0
#include "models/import/import.hpp"

#include "models/backend/abi.h"
#include "models/crossing.hpp"
#include "models/import/trial.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

constexpr auto samples_file = "samples.safetensors";

/// Above this, JSON numbers are inexact.
constexpr uint64_t max_version = uint64_t{1} << 53;

std::string plausible_inputs(const model_parts& parts) {
  return joined(parts.inputs, " ",
                [](auto& x) { return "--input " + x.name + ":F32:-1,..."; });
}

/// Checks the names of the inputs: the name of one of forward's arguments must
/// stand at that argument's position, because inputs are assigned by position.
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

/// The given inputs; or, if the model's first parameter is a matrix, one input
/// with as many columns as the matrix.
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
                 "forward takes no tensor: requests would have no inputs"};
  if (parts.inputs.size() == 1)
    for (auto& p : parts.layers.at(0).parameters)
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

/// Checks the fields of a request before the file is read.
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

/// Checks that the labels match the columns of the first output.
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

/// The manifest's fields that are known before the model runs.
manifest begin_manifest(const import_request& x, uint64_t version) {
  manifest out;
  out.format = bundle_format;
  out.name = x.name;
  out.version = version;
  out.application = x.application;
  out.description = x.description;
  out.accuracy = x.accuracy;
  out.licence = x.licence;
  out.labels = x.labels;
  out.generator = "millrace model import";
  return out;
}

/// Runs the whole model on samples, to compare its layers with, now and later.
/// Nothing if two runs give different results.
std::optional<sample_run> sample(loaded_stage& whole, const signature& s,
                                 const sample_source& source) {
  random_stream random{2};
  auto inputs = source.inputs(s, random, s.batch_axis < 0 ? 1 : 2);
  if (!inputs)
    return {};
  auto outputs = whole.run(*inputs);
  auto again = outputs ? whole.run(*inputs) : outputs;
  if (!again || !are_close(*again, *outputs))
    return {};
  return sample_run{std::move(*inputs), std::move(*outputs)};
}

/// Compares the imported model's outputs with those of its origin.
result<void> check_expected(loaded_stage& whole, const std::string& path,
                            const signature& s) {
  auto known = read_expected(path, s);
  if (!known)
    return known.failure();
  auto outputs = whole.run(known->inputs);
  if (!outputs)
    return std::move(outputs.failure()).within(path);
  for (auto& x : known->outputs)
    if (x.data.size() == 0)
      return error{ec::bad_request,
                   path
                     + ": has outputs without numbers, which cannot be"
                       " compared",
                   {}};
  for (size_t i = 0; i < outputs->size(); ++i)
    if (!are_close((*outputs)[i], known->outputs.at(i)))
      return error{ec::bad_request,
                   path + ": output/" + std::to_string(i)
                     + " differs from the result of the model here",
                   {}};
  return {};
}

/// Adds samples to a bundle if their size is reasonable.
result<void> add_samples(draft& x, const sample_run& samples) {
  constexpr size_t most = 16u << 20;
  auto& info = x.content->info;
  auto text = write_samples(info.signature, samples);
  if (!text)
    return text.failure();
  if (text->size() > most)
    return {};
  info.samples = add_tensors(x, samples_file, std::move(*text));
  auto row = rows_of(samples.inputs, info.signature);
  if (!row)
    return row.failure();
  if (auto written = write_warm_up_row(info.signature, row->rows.front()))
    info.warm_up = std::move(*written);
  return {};
}

} // namespace

result<import_report>
import_torchscript(backend& runner, const import_request& request,
                   bundle_store& target,
                   const std::function<void(std::string)>& progress) {
  if (auto fine = check_request(request); !fine)
    return fine.failure();
  auto there = target.versions(request.name);
  auto version = request.version != 0 ? request.version
                 : there.empty()      ? 1
                                      : there.back() + 1;
  if (auto room = target.check_room(request.name, version); !room)
    return room.failure();
  progress("taking " + request.path + " apart with " + runner.describe());
  auto file = map_file(request.path);
  if (!file)
    return file.failure();
  auto parts = runner.take_apart(*file);
  if (!parts)
    return std::move(parts.failure()).within(request.path);
  auto inputs = choose_inputs(request, *parts);
  if (!inputs)
    return std::move(inputs.failure()).within(request.path);
  import_report out;
  auto known = begin_manifest(request, version);
  known.signature.inputs = std::move(*inputs);
  known.signature.batch_axis = request.batch_axis;
  if (auto fine = check_samples(known.signature); !fine)
    return fine.failure();
  sample_source source;
  if (!request.sample.empty()) {
    auto given = read_sample(request.sample, known.signature);
    if (!given)
      return given.failure();
    source = std::move(*given);
  }
  known.stateful = !parts->keeps_state.empty();
  if (known.stateful && !request.stateful)
    return error{ec::bad_request,
                 request.path + ": forward keeps state between requests ("
                   + joined(parts->keeps_state, "; ", [](auto& y) { return y; })
                   + "): a request would change the answers of other clients"
                     " (expected a module whose forward writes no attribute and"
                     " no buffer, with its state as an input and an output; or"
                     " --stateful if there is only one client)",
                 {}};
  if (known.stateful) {
    known.signature.batch_axis = -1;
    out.remarks.push_back(
      "it keeps state between requests, of all clients: "
      + joined(parts->keeps_state, "; ", [](auto& y) { return y; }));
  }
  if (known.signature.batch_axis != 0) // the first axis is not that of rows
    std::erase_if(parts->couples_rows,
                  [](auto& y) { return y.ends_with(millrace_along_axis_0); });
  if (!parts->couples_rows.empty() && known.signature.batch_axis >= 0
      && !request.rows_independent) {
    known.signature.batch_axis = -1;
    out.remarks.push_back(
      "requests will never share a batch, because rows may change each other's"
      " results: "
      + joined(parts->couples_rows, "; ", [](auto& y) { return y; }));
  }
  if (parts->layers[0].parameters.empty())
    out.remarks.push_back("the file has no parameters of its own (a frozen"
                          " module?), so replicas cannot share them");
  auto output_keys = parts->outputs;
  auto done = make_draft(known, std::move(*parts));
  if (!done)
    return done.failure();
  progress("running it to learn its outputs");
  auto load = [&] { return runner.load(done->content, 0, 1); };
  auto learned = learn_outputs(load, request.output_names, known.signature,
                               source, !request.rows_independent);
  if (!learned)
    return std::move(learned.failure()).within(request.path);
  auto& outputs = known.signature.outputs;
  auto are_names =
    std::all_of(output_keys.begin(), output_keys.end(),
                [](auto& y) { return bool{check_name("output", y)}; });
  if (request.output_names.empty() && are_names
      && output_keys.size() == outputs.size())
    for (size_t i = 0; i < outputs.size(); ++i)
      outputs[i].name = output_keys[i];
  auto stage = load();
  if (!stage)
    return stage.failure();
  out.remarks.insert(out.remarks.end(), learned->begin(), learned->end());
  if (auto fine = check_signature(known.signature); !fine)
    return std::move(fine.failure()).within(request.path);
  if (auto fine = check_labels(request, known.signature); !fine)
    return fine.failure();
  if (!request.expected.empty())
    if (auto same = check_expected(**stage, request.expected, known.signature);
        !same)
      return same.failure();
  auto samples = sample(**stage, known.signature, source);
  if (!samples)
    out.remarks.push_back("its results differ between runs, so that its"
                          " layers cannot be checked: it is one layer");
  stage->reset(); // ends its process before those of the layers start
  if (samples && request.layers.depth > 0) {
    progress("cutting it into layers");
    auto layers =
      cut_into_layers(runner, *file, known, request.layers, *samples, progress);
    if (!layers && request.must_cut)
      return std::move(layers.failure()).within(request.path);
    if (layers && layers->layers)
      done = std::move(*layers->layers);
    else
      out.remarks.push_back(
        "it is one layer: "
        + (layers ? layers->why_one : layers.failure().text));
  }
  if (done->copied > 0)
    out.remarks.push_back(
      format_bytes(done->copied)
      + " of parameters that layers share are stored more than once, so that"
        " parts of the model can be loaded alone");
  auto& info = done->content->info;
  info.signature = known.signature;
  if (samples)
    if (auto added = add_samples(*done, *samples); !added)
      return added.failure();
  progress("writing the bundle");
  auto directory = target.add(info, done->files);
  if (!directory)
    return directory.failure();
  if (auto names = target.aliases(request.name);
      names && (*names)["default"] != version)
    out.remarks.push_back("version " + std::to_string((*names)["default"])
                          + " stays the default; millrace model alias "
                          + request.name + " default " + std::to_string(version)
                          + " moves it");
  out.info = info;
  out.directory = std::move(*directory);
  return out;
}

} // namespace millrace
