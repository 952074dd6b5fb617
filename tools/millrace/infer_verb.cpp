// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <numeric>

#include "client/client.hpp"
#include "millrace/array_files.hpp"
#include "millrace/print.hpp"
#include "models/npz.hpp"
#include "models/tensor_values.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

struct infer_options {
  client_options to;
  infer request;
  std::vector<std::string> inputs;
  std::string deadline = "30s";
  std::string latency;
  std::string trace;
  std::string output_file;
  double accuracy = -1;
  size_t first = 0;
  size_t rows = 0;
  bool show = false;
  size_t top = 3;
};

result<std::vector<named_tensor>> read_inputs(const infer_options& x) {
  auto out = read_arrays(x.inputs);
  if (!out)
    return out;
  for (size_t i = 0; i < out->size(); ++i) {
    auto part = choose_rows((*out)[i].value, x.first, x.rows);
    if (!part)
      return std::move(part.failure()).within(x.inputs[i]);
    (*out)[i].value = std::move(*part);
  }
  return out;
}

/// Prints a small grey image as text, two characters a pixel.
void draw(const float* pixels, size_t side) {
  constexpr std::string_view greys = " .:-=+*#%@";
  auto most = *std::max_element(pixels, pixels + side * side);
  for (size_t y = 0; y < side; ++y) {
    std::cout << "    ";
    for (size_t x = 0; x < side; ++x) {
      auto v = most > 0 ? pixels[y * side + x] / most : 0.0f;
      auto i = static_cast<size_t>(std::clamp(v, 0.0f, 1.0f) * 9);
      std::cout << greys[i] << greys[i];
    }
    std::cout << "\n";
  }
}

struct guess {
  size_t label;
  double probability;
};

/// The most likely classes of one row of scores.
std::vector<guess> best(const float* scores, size_t n, size_t top) {
  std::vector<guess> out(n);
  auto most = *std::max_element(scores, scores + n);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    out[i] = {i, std::exp(double{scores[i]} - double{most})};
    sum += out[i].probability;
  }
  for (auto& g : out)
    g.probability /= sum;
  std::sort(out.begin(), out.end(),
            [](auto& a, auto& b) { return a.probability > b.probability; });
  out.resize(std::min(top, n));
  return out;
}

/// Prints rows of scores as labels; false if the output has no such scores.
bool print_labels(const infer_options& x, const tensor& input,
                  const tensor& scores,
                  const std::vector<std::string>& labels) {
  if (scores.type != dtype::f32 || scores.extents.rank() != 2
      || static_cast<size_t>(scores.extents[1]) != labels.size())
    return false;
  auto rows = static_cast<size_t>(scores.extents[0]);
  auto* y = reinterpret_cast<const float*>(scores.data.data());
  auto pixels = input.data.size() / sizeof(float) / std::max<size_t>(1, rows);
  auto side = static_cast<size_t>(std::lround(std::sqrt(pixels)));
  auto drawable =
    input.type == dtype::f32 && side * side == pixels && side <= 32;
  for (size_t i = 0; i < rows; ++i) {
    if (x.show && drawable)
      draw(reinterpret_cast<const float*>(input.data.data()) + i * pixels,
           side);
    std::cout << "row " << x.first + i << ":";
    for (auto& g : best(y + i * labels.size(), labels.size(), x.top)) {
      char text[16];
      std::snprintf(text, sizeof text, "%.1f %%", 100 * g.probability);
      std::cout << "  " << printable(labels[g.label]) << " (" << text << ")";
    }
    std::cout << "\n";
  }
  return true;
}

void print_values(const named_tensor& x) {
  constexpr size_t most = 10;
  std::cout << printable(x.name) << " " << to_string(x.value);
  visit_values(x.value, most + 1, [most](auto& values) {
    auto before = ": ";
    for (size_t i = 0; i < std::min(values.size(), most); ++i)
      std::cout << std::exchange(before, " ") << values[i];
    std::cout << (values.size() > most ? " ..." : "");
  });
  std::cout << "\n";
}

json output_json(const named_tensor& x) {
  auto out = json{{"name", x.name},
                  {"dtype", std::string{to_string(x.value.type)}},
                  {"shape", std::vector<int64_t>(x.value.extents.begin(),
                                                 x.value.extents.end())}};
  visit_values(x.value, SIZE_MAX,
               [&](auto& values) { out["values"] = values; });
  return out;
}

/// Writes the outputs to a file. Errors: as write_npz.
result<void> save_outputs(const std::string& file, const infer_reply& y) {
  if (file.empty() || y.status != ec::ok)
    return {};
  return write_npz(file, y.outputs);
}

int print_reply(const infer_options& x, const infer_reply& y,
                const std::vector<std::string>& labels,
                const common_options& common) {
  if (common.json) {
    auto out = json{{"status", std::string{to_string(y.status)}},
                    {"error", y.error},
                    {"model", y.model},
                    {"version", y.version},
                    {"replica", y.replica},
                    {"batch", y.batch},
                    {"queue_us", y.queue.count()},
                    {"gathered_us", y.gathered.count()},
                    {"execute_us", y.execute.count()},
                    {"interference_us", y.interference.count()},
                    {"total_us", y.total.count()},
                    {"outputs", json::array()}};
    for (auto& tensor : y.outputs)
      out["outputs"].push_back(output_json(tensor));
    std::cout << json_text(out) << std::endl;
    return y.status == ec::ok ? exit_ok : exit_failed;
  }
  if (y.status != ec::ok)
    return fail(
      common,
      {y.status, std::string{to_string(y.status)} + ": " + y.error, {}});
  for (size_t i = 0; i < y.outputs.size(); ++i)
    if (i > 0 || labels.empty()
        || !print_labels(x, x.request.inputs[0].value, y.outputs[0].value,
                         labels))
      print_values(y.outputs[i]);
  std::cout << "answered by " << printable(y.model) << " version " << y.version
            << " (" << printable(y.replica) << ") in "
            << format_duration(y.total) << ", " << format_duration(y.execute)
            << " executing" << std::endl;
  return exit_ok;
}

int run_infer(infer_options& x, const common_options& common) {
  auto deadline = parse_duration(x.deadline);
  if (!deadline)
    return fail(common, deadline.failure());
  if (!x.latency.empty()) {
    auto latency = parse_duration(x.latency);
    if (!latency)
      return fail(common, latency.failure());
    x.request.latency = *latency;
  }
  if (x.accuracy >= 0)
    x.request.accuracy = x.accuracy;
  auto inputs = read_inputs(x);
  if (!inputs)
    return fail(common, inputs.failure());
  x.request.inputs = std::move(*inputs);
  // A short deadline also limits the time to connect.
  auto gateway = client::connect(
    x.to.gateway, std::clamp<microseconds>(*deadline, 1s, 5s), x.to.key);
  if (!gateway)
    return fail(common, gateway.failure());
  auto reply = gateway->infer_one(x.request, *deadline, x.trace);
  if (auto saved = save_outputs(x.output_file, reply); !saved)
    return fail(common, saved.failure());
  std::vector<std::string> labels;
  if (reply.status == ec::ok && !common.json)
    if (auto models = gateway->models())
      for (auto& m : *models)
        if (m.model == reply.model && m.version == reply.version)
          labels = m.labels;
  return print_reply(x, reply, labels, common);
}

} // namespace

void add_infer_verb(CLI::App& app, common_options& common, verb_action& run) {
  auto x = std::make_shared<infer_options>();
  auto* verb = app.add_subcommand("infer", "Submit a request");
  add_client_options(*verb, x->to);
  auto* model = verb->add_option("--model", x->request.model, "Model to run");
  verb->add_option("--version", x->request.version, "Its version or alias");
  auto* app_name =
    verb
      ->add_option("--app", x->request.application,
                   "Application to run; its fastest suitable variant answers")
      ->excludes(model);
  verb
    ->add_option("--accuracy", x->accuracy,
                 "With --app: least accuracy, 0 to 1")
    ->check(CLI::Range(0.0, 1.0))
    ->needs(app_name);
  verb
    ->add_option("--latency", x->latency,
                 "With --app: longest execution time, like 20ms")
    ->needs(app_name);
  verb
    ->add_option("--input", x->inputs,
                 "A .npy file, or NAME=FILE; once per input")
    ->required();
  verb->add_option("--first", x->first, "First row of the file to send");
  verb->add_option("--rows", x->rows, "Number of rows to send; default: all")
    ->check(whole_number(1));
  verb
    ->add_option("--deadline", x->deadline,
                 "Time until the request is given up")
    ->capture_default_str();
  verb->add_option("--trace", x->trace,
                   "Name of this request, for 'actor-shell explain NAME'");
  verb->add_option("--output-file", x->output_file,
                   "Save the outputs to this file, as numpy.savez does");
  verb->add_option("--top", x->top, "Labels to print per row")
    ->capture_default_str();
  verb->add_flag("--show", x->show, "Draw small square inputs as text");
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_infer(*x, common); };
  });
}

} // namespace millrace
