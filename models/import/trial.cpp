// SPDX-License-Identifier: Apache-2.0
#include "models/import/trial.hpp"

#include "models/batching.hpp"
#include "models/import/samples.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// The trial runs of one model.
class trial {
public:
  trial(loaded_stage& stage, signature& s) : stage_(stage), s_(s) {}

  result<std::vector<std::string>>
  run(const std::vector<std::string>& output_names) {
    std::vector<std::string> remarks;
    auto two = sample_inputs(s_, random_, 2);
    auto three = sample_inputs(s_, random_, 3);
    if (!two || !three)
      return (two ? three : two).failure();
    auto y2 = stage_.run(*two);
    if (!y2)
      return does_not_run(y2.failure());
    auto y3 = stage_.run(*three);
    if (!y3)
      return does_not_run(y3.failure());
    if (y2->size() != y3->size())
      return error{ec::bad_request, "the number of outputs depends on the"
                                    " number of rows"};
    if (y2->empty())
      return error{ec::bad_request, "the model returned no tensor"};
    for (size_t i = 0; i < y2->size(); ++i)
      s_.outputs.push_back(
        spec_of((*y2)[i], (*y3)[i], name_of(output_names, i, y2->size())));
    if (output_names.size() > y2->size())
      return error{ec::bad_request,
                   std::to_string(output_names.size())
                     + " output names were given, the model has "
                     + std::to_string(y2->size()) + " output(s)"};
    if (s_.batch_axis >= 0) {
      auto independent = rows_are_independent(*two, *y2);
      if (!independent)
        return independent.failure();
      if (!*independent) {
        s_.batch_axis = -1;
        remarks.push_back("a row's result depends on the other rows, so"
                          " requests will never share a batch");
      }
    }
    free_what_follows(*y2);
    return remarks;
  }

private:
  /// Where inputs have other free axes than the batch's, those of the outputs
  /// that follow them are free, too. A model that does not run so has none. The
  /// last of the runs: it may end the model's process.
  void free_what_follows(const tensor_list& y) {
    auto differs =
      std::any_of(s_.inputs.begin(), s_.inputs.end(), [&](auto& spec) {
        return !(with_rows(spec, s_.batch_axis, 2, 2)
                 == with_rows(spec, s_.batch_axis, 2));
      });
    auto wide = sample_inputs(s_, random_, 2, 2);
    if (!differs || !wide)
      return;
    auto z = stage_.run(*wide);
    for (size_t i = 0; z && i < std::min(z->size(), y.size()); ++i) {
      auto found = spec_of(y[i], (*z)[i], {});
      for (size_t k = 0; k < found.extents.size(); ++k)
        if (found.extents[k] < 0)
          s_.outputs[i].extents[k] = -1;
    }
  }

  static error does_not_run(const error& x) {
    if (x.code != ec::internal) // nothing that other inputs would mend
      return {ec::bad_request, "a trial run: " + x.text, {}};
    return {ec::bad_request,
            "the model does not run on inputs of these shapes; give"
            " --input NAME:DTYPE:EXTENTS for each input. It said: "
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

  /// Errors: none of the model's own, which say that they are not.
  result<bool> rows_are_independent(const tensor_list& both,
                                    const tensor_list& y) {
    constexpr size_t rows[] = {1, 1};
    auto inputs = scatter(both, rows, s_.batch_axis);
    auto expected = scatter(y, rows, s_.batch_axis);
    if (!inputs || !expected)
      return false;
    for (size_t i = 0; i < 2; ++i) {
      auto alone = stage_.run((*inputs)[i]);
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

  loaded_stage& stage_;
  signature& s_;
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
                                      + " axes (expected one of them, counted"
                                        " from 0, or -1 for none)"};
    auto axis = static_cast<size_t>(s.batch_axis);
    auto bytes = dense_bytes(spec.type, with_rows(spec, s.batch_axis, 3));
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
learn_outputs(loaded_stage& stage, const std::vector<std::string>& names,
              signature& s) {
  return trial{stage, s}.run(names);
}

} // namespace millrace
