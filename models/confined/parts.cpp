// SPDX-License-Identifier: Apache-2.0
#include "models/confined/parts.hpp"

#include <algorithm>
#include <cctype>

#include "models/crossing.hpp"
#include "models/safetensors.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace::confined {

namespace {

/// The tensors of the serialised parts, in this order.
enum part_kind : uint8_t {
  inputs_part,   ///< a line "NAME TYPE" for each
  findings_part, ///< a line "rows TEXT", "state TEXT" or "output TEXT" for each
  layers_part,   ///< a layer_list, as YAML
  code_part,     ///< of each layer, concatenated
  weights_part,  ///< the parameters of all layers, as safetensors
  part_kinds
};

struct layer_list {
  std::vector<layer_info> layers;
  MILLRACE_FIELDS(layer_list, layers)
};

/// Upper limits of the texts of inputs and layers.
constexpr size_t most_input_text = 64 << 10;
constexpr size_t most_layer_text = 4 << 20;

/// Whether TorchScript could name an argument so.
bool is_argument_name(std::string_view x) {
  return !x.empty() && x.size() <= 255
         && std::all_of(x.begin(), x.end(), [](unsigned char c) {
              return std::isalnum(c) || c == '_' || c == '.';
            });
}

result<std::vector<model_parts::input>> read_inputs(std::string_view text) {
  if (text.size() > most_input_text)
    return error{ec::bad_request, "forward takes more than can be read"};
  std::vector<model_parts::input> out;
  for (auto line : split(text, '\n')) {
    if (line.empty())
      continue;
    auto name = line.substr(0, line.find(' '));
    if (!is_argument_name(name) || name.size() == line.size())
      return error{ec::bad_request, "forward takes " + shown(line)
                                      + " (expected a name and a type)"};
    out.push_back(
      {std::string{name}, std::string{line.substr(name.size() + 1)}});
  }
  return out;
}

/// Reads findings; characters that control a terminal are refused.
result<void> read_findings(std::string_view text, model_parts& to) {
  if (text.size() > most_input_text)
    return error{ec::bad_request, "more was found in it than can be read"};
  for (auto line : split(text, '\n')) {
    auto kind = line.substr(0, line.find(' '));
    auto& list = kind == "state"    ? to.keeps_state
                 : kind == "output" ? to.outputs
                                    : to.couples_rows;
    auto most = kind == "output" ? most_tensors : model_parts::most_findings;
    if (kind.size() < line.size() && list.size() < most)
      list.push_back(printable(line.substr(kind.size() + 1).substr(0, 200)));
  }
  return {};
}

/// Creates each layer with its share of the code and the parameters.
result<std::vector<model_parts::layer>>
read_layers(const std::string& text, std::string_view code,
            std::vector<named_tensor> weights) {
  layer_list list;
  if (text.size() > most_layer_text)
    return error{ec::bad_request, "it has more layers than can be read"};
  if (auto done = yaml_reader{"its layers"}.read(text, list); !done)
    return done.failure();
  std::vector<model_parts::layer> out;
  auto next = weights.begin();
  for (auto& x : list.layers) {
    auto left = static_cast<uint64_t>(weights.end() - next);
    if (x.code_bytes > code.size() || x.parameters > left)
      return error{ec::bad_request,
                   "its layer " + shown(x.name)
                     + " has more code or parameters than the file"};
    auto end = next + static_cast<std::ptrdiff_t>(x.parameters);
    out.push_back(
      {std::move(x.name),
       std::move(x.takes),
       value_names(x.gives),
       std::string{code.substr(0, x.code_bytes)},
       {std::make_move_iterator(next), std::make_move_iterator(end)}});
    code.remove_prefix(x.code_bytes);
    next = end;
  }
  if (out.empty())
    return error{ec::bad_request, "it has no layers"};
  return out;
}

} // namespace

result<tensor_list> write_parts(model_parts parts) {
  std::string texts[part_kinds];
  for (auto& input : parts.inputs)
    texts[inputs_part] += input.name + " " + input.type + "\n";
  for (auto& finding : parts.couples_rows)
    texts[findings_part] += "rows " + finding + "\n";
  for (auto& finding : parts.keeps_state)
    texts[findings_part] += "state " + finding + "\n";
  for (auto& name : parts.outputs)
    texts[findings_part] += "output " + name + "\n";
  layer_list list;
  std::vector<named_tensor> all;
  for (auto& layer : parts.layers) {
    layer_info info;
    info.name = std::move(layer.name);
    info.code_bytes = layer.code.size();
    info.parameters = layer.parameters.size();
    info.takes = std::move(layer.takes);
    for (auto& value : layer.gives)
      info.gives.push_back({std::move(value), {}, {}, {}});
    texts[code_part] += layer.code;
    // Names are unique in a file, but not across layers.
    auto prefix = std::to_string(list.layers.size()) + "/";
    for (auto& p : layer.parameters)
      all.push_back({prefix + p.name, std::move(p.value)});
    list.layers.push_back(std::move(info));
  }
  texts[layers_part] = yaml_writer::write(list);
  auto weights = write_safetensors(all);
  if (!weights)
    return weights.failure();
  texts[weights_part] = std::move(*weights);
  tensor_list out;
  for (auto& text : texts) {
    auto bytes = std::make_shared<const std::string>(std::move(text));
    auto n = static_cast<int64_t>(bytes->size());
    out.push_back({dtype::u8, {n}, {std::as_bytes(std::span{*bytes}), bytes}});
  }
  return out;
}

result<model_parts> read_parts(const tensor_list& xs) {
  if (xs.size() != part_kinds)
    return error{ec::internal, "a confined process gave "
                                 + std::to_string(xs.size()) + " parts"};
  auto weights = read_safetensors(xs[weights_part].data);
  if (!weights)
    return weights.failure();
  for (auto& x : *weights)
    x.name = x.name.substr(x.name.find('/') + 1);
  auto inputs = read_inputs(xs[inputs_part].data.text());
  if (!inputs)
    return inputs.failure();
  auto layers = read_layers(std::string{xs[layers_part].data.text()},
                            xs[code_part].data.text(), std::move(*weights));
  if (!layers)
    return layers.failure();
  model_parts out{std::move(*inputs), std::move(*layers), {}, {}, {}};
  if (auto done = read_findings(xs[findings_part].data.text(), out); !done)
    return done.failure();
  return out;
}

} // namespace millrace::confined
