// SPDX-License-Identifier: Apache-2.0
#include "models/import/trial.hpp"

#include "models/batching.hpp"
#include "models/import/samples.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// Extents tried for free axes: large enough for models that divide them (by at
/// most 32 among image models), down to the smallest.
constexpr int64_t extents_tried[] = {32, 8, 1};

/// Ranges tried without a sample: the usual one, then those for models that
/// take no zeros, or check values for plausibility.
constexpr sample_range ranges_tried[] = {
  {-1, 1, 0, 1}, {0, 1, 1, 1}, {1, 9, 1, 9}, {20, 99, 20, 99}};

/// Ranges for the neighbour of a row that the model accepts: bytes of a
/// picture, indices, measurements.
constexpr sample_range unlike[] = {
  {0, 255, 0, 255}, {0, 9, 0, 9}, {-1000, 1000, 0, 1000}};

std::string shown_range(const sample_range& x) {
  return "from " + format_number(x.low) + " to " + format_number(x.high);
}

/// The trial runs of one model.
class trial {
public:
  trial(stage_loader load, signature& s, sample_source& source, bool try_rows)
    : load_(std::move(load)),
      s_(s),
      source_(source),
      try_rows_(try_rows) {}

  result<std::vector<std::string>>
  run(const std::vector<std::string>& output_names) {
    std::vector<std::string> remarks;
    auto two = first_run();
    if (!two)
      return two.failure();
    auto& y2 = two->outputs;
    auto three = source_.inputs(s_, random_, 3);
    if (!three)
      return three.failure();
    auto y3 = run_on(*three);
    if (!y3)
      return does_not_run(y3.failure());
    if (y2.size() != y3->size())
      return error{ec::bad_request, "the number of outputs depends on the"
                                    " number of rows"};
    if (y2.empty())
      return error{ec::bad_request, "the model returned no tensor"};
    for (size_t i = 0; i < y2.size(); ++i)
      s_.outputs.push_back(
        spec_of(y2[i], (*y3)[i], name_of(output_names, i, y2.size())));
    if (output_names.size() > y2.size())
      return error{ec::bad_request,
                   std::to_string(output_names.size())
                     + " output names were given, the model has "
                     + std::to_string(y2.size()) + " output(s)"};
    if (s_.batch_axis >= 0 && try_rows_) {
      auto why = what_couples_rows(two->inputs, y2);
      if (!why)
        return why.failure();
      if (!why->empty()) {
        s_.batch_axis = -1;
        remarks.push_back("a row's result may depend on the other rows (" + *why
                          + "), so requests will never share a batch");
      }
    }
    free_what_follows(y2);
    return remarks;
  }

private:
  /// Runs a loaded stage; loads it again if the run before has ended its
  /// process.
  result<tensor_list> run_on(const tensor_list& inputs) {
    if (stage_ == nullptr) {
      auto made = load_();
      if (!made)
        return made.failure();
      stage_ = std::move(*made);
    }
    auto y = stage_->run(inputs);
    if (!y && y.failure().code != ec::internal)
      stage_.reset();
    return y;
  }

  bool has_free_extents() const {
    return std::any_of(s_.inputs.begin(), s_.inputs.end(), [&](auto& spec) {
      for (size_t i = 0; i < spec.extents.size(); ++i)
        if (spec.extents[i] < 0 && static_cast<int>(i) != s_.batch_axis)
          return true;
      return false;
    });
  }

  /// Runs two rows: of the sample, or of the first range and longest extents
  /// that the model accepts.
  result<sample_run> first_run() {
    std::optional<error> last;
    auto run = [&]() -> std::optional<sample_run> {
      auto inputs = source_.inputs(s_, random_, 2);
      auto y = inputs ? run_on(*inputs) : inputs;
      if (y)
        return sample_run{std::move(*inputs), std::move(*y)};
      if (!last) // keep the error of the usual range
        last = y.failure();
      return std::nullopt;
    };
    if (!source_.rows.empty()) {
      if (auto done = run())
        return std::move(*done);
      return does_not_run(*last);
    }
    // All ranges with long extents first: with few numbers, some range may be
    // accepted by chance.
    for (auto extent : extents_tried) {
      s_.usual_extent = has_free_extents() ? extent : 1;
      for (auto& range : ranges_tried) {
        source_.range = range;
        if (auto done = run())
          return std::move(*done);
        if (last->code != ec::internal)
          return does_not_run(*last);
      }
      if (!has_free_extents())
        break;
    }
    return does_not_run(*last);
  }

  /// If inputs have free axes other than the batch's, marks the outputs' axes
  /// that depend on them as free, by a run with another extent.
  void free_what_follows(const tensor_list& y) {
    if (!has_free_extents() || !source_.rows.empty())
      return;
    for (auto extent : {2 * s_.usual_extent, s_.usual_extent / 2}) {
      auto other = s_;
      other.usual_extent = std::max<int64_t>(1, extent);
      auto inputs = source_.inputs(other, random_, 2);
      auto z = inputs ? run_on(*inputs) : inputs;
      for (size_t i = 0; z && i < std::min(z->size(), y.size()); ++i) {
        auto found = spec_of(y[i], (*z)[i], {});
        for (size_t k = 0; k < found.extents.size(); ++k)
          if (found.extents[k] < 0)
            s_.outputs[i].extents[k] = -1;
      }
      if (z)
        return;
    }
  }

  static error does_not_run(const error& x) {
    if (x.code != ec::internal) // other inputs would not help
      return {ec::bad_request, "a trial run: " + x.text, {}};
    return {ec::bad_request,
            "the model does not run on inputs of these shapes (expected"
            " --input NAME:DTYPE:EXTENTS of each, with -1 only where any number"
            " fits, and --sample FILE.npz where it takes no random numbers)."
            " Its error: "
              + x.text,
            {}};
  }

  static std::string name_of(const std::vector<std::string>& names, size_t i,
                             size_t n) {
    if (i < names.size())
      return names[i];
    return n == 1 ? "output" : "output" + std::to_string(i);
  }

  static tensor_spec spec_of(const tensor& a, const tensor& b,
                             std::string name) {
    tensor_spec out{std::move(name), a.type, {}};
    for (size_t i = 0; i < a.extents.rank(); ++i)
      out.extents.push_back(i < b.extents.rank() && a.extents[i] == b.extents[i]
                              ? a.extents[i]
                              : -1);
    return out;
  }

  /// The range of numbers with which a neighbour changes a row's result; empty:
  /// none.
  /// Errors: of loading.
  result<std::string> what_couples_rows(const tensor_list& both,
                                        const tensor_list& y) {
    auto again = run_on(both);
    if (!again && again.failure().code != ec::internal)
      return does_not_run(again.failure());
    if (!again || !are_close(*again, y))
      return std::string{"its results differ between runs"};
    auto independent = rows_are_independent(both, y);
    if (!independent)
      return independent.failure();
    auto tried = source_.rows.empty() ? "numbers " + shown_range(source_.range)
                                      : std::string{"the sample"};
    if (!*independent)
      return "tried with " + tried;
    for (auto& range : unlike) {
      auto small = source_.inputs(s_, random_, 1);
      auto large = sample_source{{}, range}.inputs(s_, random_, 1);
      if (!small || !large)
        continue;
      for (auto large_first : {false, true}) {
        std::vector rows{*small, *large};
        if (large_first)
          std::swap(rows[0], rows[1]);
        auto mixed = gather(rows, s_.batch_axis);
        if (!mixed)
          continue;
        auto together = run_on(*mixed);
        if (!together && together.failure().code != ec::internal)
          return does_not_run(together.failure());
        auto same =
          together ? rows_are_independent(*mixed, *together) : fail_alone(rows);
        if (!same)
          return same.failure();
        if (!*same)
          return "tried with " + tried + " beside numbers "
                 + shown_range(range);
      }
    }
    return std::string{};
  }

  /// Whether one of these rows does not run alone either: then the model does
  /// not accept its numbers.
  result<bool> fail_alone(const std::vector<tensor_list>& rows) {
    for (auto& row : rows) {
      auto y = run_on(row);
      if (!y && y.failure().code != ec::internal)
        return does_not_run(y.failure());
      if (!y)
        return true;
    }
    return false;
  }

  /// An error of the model's own counts as dependence of rows.
  result<bool> rows_are_independent(const tensor_list& both,
                                    const tensor_list& y) {
    constexpr size_t rows[] = {1, 1};
    auto inputs = scatter(both, rows, s_.batch_axis);
    auto expected = scatter(y, rows, s_.batch_axis);
    if (!inputs || !expected)
      return false;
    for (size_t i = 0; i < 2; ++i) {
      auto alone = run_on((*inputs)[i]);
      if (!alone && alone.failure().code != ec::internal)
        return does_not_run(alone.failure());
      if (!alone || alone->size() != y.size())
        return false;
      for (size_t k = 0; k < y.size(); ++k)
        if (!are_close((*alone)[k], (*expected)[i][k]))
          return false;
    }
    return true;
  }

  stage_loader load_;
  std::unique_ptr<loaded_stage> stage_;
  signature& s_;
  sample_source& source_;
  bool try_rows_;
  random_stream random_{1};
};

} // namespace

result<void> check_samples(const signature& s) {
  if (s.batch_axis < -1)
    return error{ec::bad_request, "batch axis " + std::to_string(s.batch_axis)
                                    + ": expected an axis of the inputs, or -1"
                                      " for none"};
  for (auto& spec : s.inputs) {
    if (s.batch_axis >= static_cast<int>(spec.extents.size()))
      return error{ec::bad_request, "batch axis " + std::to_string(s.batch_axis)
                                      + ": input " + to_string(spec) + " has "
                                      + std::to_string(spec.extents.size())
                                      + " axes (expected an axis, counted from"
                                        " 0, or -1 for none)"};
    auto axis = static_cast<size_t>(s.batch_axis);
    auto bytes = dense_bytes(spec.type, with_rows(s, spec, 3));
    if (s.batch_axis >= 0 && spec.extents[axis] >= 0)
      return error{ec::bad_request,
                   "input " + to_string(spec) + ": axis "
                     + std::to_string(s.batch_axis)
                     + " is the batch axis, along which requests are put"
                       " together, and has a fixed extent (expected -1 there,"
                       " or --batch-axis -1 for a model that takes no"
                       " batches)"};
    if (!bytes || *bytes > max_sample_bytes)
      return error{ec::bad_request, "input " + to_string(spec)
                                      + ": three rows are more than "
                                      + format_bytes(max_sample_bytes)};
  }
  return {};
}

result<std::vector<std::string>>
learn_outputs(stage_loader load, const std::vector<std::string>& names,
              signature& s, sample_source& source, bool try_rows) {
  return trial{std::move(load), s, source, try_rows}.run(names);
}

} // namespace millrace
