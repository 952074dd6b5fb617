// SPDX-License-Identifier: Apache-2.0
#include "models/import/layers.hpp"

#include "models/crossing.hpp"
#include "models/partition/granularity.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// The steps of cutting one model.
class cutting {
public:
  cutting(backend& runner, const mapped_file& file, const manifest& known,
          const sample_run& samples,
          const std::function<void(std::string)>& progress)
    : runner_(runner),
      file_(file),
      known_(known),
      samples_(samples),
      progress_(progress) {}

  /// Cuts at these of the finest layers; at all if `firsts` is empty.
  result<draft> cut(uint32_t depth, std::vector<uint32_t> firsts) {
    auto inputs = static_cast<uint32_t>(known_.signature.inputs.size());
    auto parts =
      runner_.take_apart(file_, layer_split{depth, inputs, std::move(firsts)});
    if (!parts)
      return parts.failure();
    auto out = make_draft(known_, std::move(*parts));
    if (!out || out->content->info.layers.size() == 1)
      return out;
    // Parses the manifest, as a later open will do.
    auto manifest = print_manifest(out->content->info);
    auto read = parse_manifest(manifest, "model.yaml");
    return read ? std::move(out) : read.failure();
  }

  /// Measures each layer by running it.
  result<std::vector<fine_layer>> measure(const draft& x) {
    auto& content = x.content;
    auto n = content->info.layers.size();
    std::vector<fine_layer> out(n);
    for (size_t i = 0; i < n; ++i)
      out[i].parameters = millrace::bytes_of(weights_of(*content, i, i + 1));
    auto done = run(x, {}, [&](size_t i, const tensor_lists& behind) {
      if (i + 1 < n)
        out[i + 1].crossing = bytes_of(behind.front());
      if ((i + 1) % steps_told == 0)
        progress_("ran " + std::to_string(i + 1) + " of " + std::to_string(n)
                  + " parts");
    });
    return done ? result<std::vector<fine_layer>>{std::move(out)}
                : done.failure();
  }

  /// Checks that the layers compute the same as the whole, and learns the sizes
  /// of the values between them.
  /// Errors: bad_request when results differ.
  result<void> prove(draft& x) {
    auto& s = known_.signature;
    random_stream random{4};
    auto source = rows_of(samples_.inputs, s);
    if (!source)
      return source.failure();
    tensor_lists more;
    for (auto rows : {1, s.batch_axis < 0 ? 1 : 2}) {
      auto inputs = source->inputs(s, random, rows);
      if (!inputs)
        return inputs.failure();
      more.push_back(std::move(*inputs));
    }
    return run(x, std::move(more), [&](size_t i, const tensor_lists& behind) {
      auto names = crossing(x.content->info, i + 1);
      for (auto& value : x.content->info.layers[i].gives)
        for (size_t k = 0; k < names.size(); ++k)
          if (names[k] == value.name)
            learn(value, behind.at(1).at(k), behind.at(2).at(k));
    });
  }

private:
  static constexpr size_t steps_told = 50;

  using on_layer = std::function<void(size_t, const tensor_lists&)>;

  /// Runs the layers on the samples and further inputs.
  result<void> run(const draft& x, tensor_lists more, const on_layer& told) {
    more.insert(more.begin(), samples_.inputs);
    auto y = run_by_layers(runner_, x.content, std::move(more), told);
    if (!y)
      return y.failure();
    if (!are_close(y->front(), samples_.outputs))
      return error{ec::bad_request,
                   "cannot be cut into layers: one after the other they"
                   " give other results than the whole"};
    return {};
  }

  /// Derives a value's sizes from requests of one row and of two rows.
  static void learn(passed_value& to, const tensor& one, const tensor& two) {
    to.type = one.type;
    to.extents.assign(one.extents.begin(), one.extents.end());
    to.per_row.clear();
    if (one.extents == two.extents || one.extents.rank() != two.extents.rank())
      return;
    for (size_t i = 0; i < one.extents.rank(); ++i)
      to.per_row.push_back(two.extents[i] - one.extents[i]);
  }

  backend& runner_;
  const mapped_file& file_;
  const manifest& known_;
  const sample_run& samples_;
  const std::function<void(std::string)>& progress_;
};

} // namespace

result<cut_model>
cut_into_layers(backend& runner, const mapped_file& file, const manifest& known,
                const layer_settings& how, const sample_run& samples,
                const std::function<void(std::string)>& progress) {
  cutting work{runner, file, known, samples, progress};
  auto finest = work.cut(how.depth, {});
  if (!finest)
    return finest.failure();
  if (finest->content->info.layers.size() == 1)
    return cut_model{{}, "it has no parts that follow each other"};
  progress("running each of its "
           + std::to_string(finest->content->info.layers.size())
           + " parts to see what passes between them");
  auto measured = work.measure(*finest);
  if (!measured)
    return measured.failure();
  auto firsts = choose_layers(*measured, how.most, how.least);
  if (firsts.size() == 1)
    return cut_model{{},
                     how.most == 1 ? "--most-layers allows no more"
                                   : "its parts together are not two layers of "
                                       + format_bytes(how.least)
                                       + " of parameters" + " (--layer-size)"};
  auto out = work.cut(how.depth, std::move(firsts));
  if (!out)
    return out.failure();
  progress("comparing its " + std::to_string(out->content->info.layers.size())
           + " layers with the whole");
  if (auto same = work.prove(*out); !same)
    return same.failure();
  return cut_model{std::move(*out), {}};
}

result<tensor_lists>
run_by_layers(backend& runner, const std::shared_ptr<const bundle>& opened,
              tensor_lists inputs,
              const std::function<void(size_t, const tensor_lists&)>& behind) {
  for (size_t i = 0; i < opened->info.layers.size(); ++i) {
    auto in_layer = [&](error why) {
      return std::move(why).within("layer "
                                   + shown(opened->info.layers[i].name));
    };
    auto stage = runner.load(opened, i, i + 1);
    if (!stage)
      return in_layer(std::move(stage.failure()));
    for (auto& crossing : inputs) {
      auto y = (*stage)->run(crossing);
      if (!y)
        return in_layer(std::move(y.failure()));
      crossing = std::move(*y);
    }
    if (behind)
      behind(i, inputs);
  }
  return inputs;
}

} // namespace millrace
