// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "models/batching.hpp"
#include "models/bundle.hpp"
#include "models/device/gpu.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Memory that the outputs of a pass may be made in, so that they need not be
/// copied there.
struct output_room {
  shared_bytes memory; ///< which only the pass writes, 64-byte aligned
  size_t used = 0;     ///< set: of these so many, from the beginning on
  bool kept = false;   ///< set: the model goes on using some of it
};

/// When a run has gone on for long enough.
struct run_limits {
  timestamp until = far_future; ///< its results are worthless then
  std::stop_token unwanted{};   ///< or when this is said
  nanoseconds usual{0};         ///< that one of its size takes; 0: not known
  nanoseconds least{0};   ///< it is not stopped before, whatever else is said
  bool of_nobody = false; ///< no request is to blame when it takes too long
};

/// A range of a model's layers, ready to run. Safe to run from several threads.
class loaded_stage {
public:
  virtual ~loaded_stage() = default;

  /// One forward pass over a batch. What can be stopped is, at a limit. Unless
  /// it is null, `peak` gets how many bytes of tensors the pass had allocated
  /// at most at a time, its outputs included but for those in a room. What has
  /// no use for a room leaves it as it is. Errors: internal with the backend's
  /// own text; overloaded when a GPU has no memory left for it, unavailable
  /// when nothing works there any more (another process may be luckier); of a
  /// stage that is not of this process, poison when its process ended over it,
  /// cancelled when that was for what another run took too long, unavailable
  /// when it was before.
  virtual result<tensor_list> run(const tensor_list& inputs,
                                  const run_limits& limits = {},
                                  uint64_t* peak = nullptr,
                                  output_room* room = nullptr) = 0;

  /// Whether what the inputs hold, and not their extents alone, may decide how
  /// long it runs.
  virtual bool depends_on_values() const = 0;

  /// These of the weights can be read, or all: they are copied if they are to
  /// lie elsewhere, once, by one call at a time. The first run comes after all
  /// of them; on a GPU it may come before, and each layer waits for its own.
  /// Errors: as run.
  virtual result<void> arrive(std::optional<const_bytes> part = {}) {
    static_cast<void>(part);
    return {};
  }

  /// What has not arrived never will: runs that wait for it fail. Any thread.
  virtual void give_up_parameters() {}

  /// What it takes of a GPU: its parameters, and what has been kept for its
  /// passes so far, as far as that can be told.
  virtual byte_count memory() const { return {}; }
};

/// A model file taken apart for import.
struct model_parts {
  struct input {
    std::string name; ///< letters, digits, '_' and '.'
    std::string type; ///< as the model's language prints it
  };
  /// As layer_info has it, but for the inputs' names, which are those above.
  struct layer {
    std::string name;
    std::vector<std::string> takes, gives;
    std::string code;
    std::vector<named_tensor> parameters; ///< in memory that nobody else writes
  };
  static constexpr size_t most_findings = 16; ///< of a kind
  std::vector<input> inputs;
  std::vector<layer> layers;
  // Operators of forward, each as "aten::max at model.py:12".
  /// They make numbers, extents or branches of a whole batch's values.
  std::vector<std::string> couples_rows;
  std::vector<std::string> keeps_state; ///< they write what later calls read
  std::vector<std::string> outputs; ///< keys of a dictionary that is returned
};

/// How a model file is cut into layers: where the model enters and leaves parts
/// of itself, down to so many names ("encoder.layer.3" has three).
struct layer_split {
  uint32_t depth = 4;
  uint32_t inputs = 1; ///< of forward's arguments, so many are given
  /// Of these layers, those that begin one; empty: each does.
  std::vector<uint32_t> firsts;
};

/// Whether somebody vouches for the code that a backend loads. What nobody
/// vouches for is refused when it calls an operator that opens files: by what
/// its sources say before they are loaded, and by what they were compiled to
/// after that. That is for who reads the error; what keeps code from files is
/// the process it runs in.
enum class code_trust : uint8_t { none, full };

/// What runs models: LibTorch today, behind an interface so that another can
/// stand beside it.
class backend {
public:
  virtual ~backend() = default;

  /// "LibTorch 1.13.1, CPU".
  virtual std::string describe() const = 0;

  /// To be called once in each thread that runs stages: how many threads one
  /// operator may use.
  virtual void enter_thread(int threads) = 0;

  /// Loads layers [first, last). Parameters are used where they are mapped, or
  /// lie on a GPU. Their bytes are not looked at before arrive().
  /// Errors: internal when the code does not parse, names other parameters, or
  /// calls what only trusted code may; overloaded when a GPU has no memory
  /// left, unavailable when there is none.
  virtual result<std::unique_ptr<loaded_stage>>
  load(const std::shared_ptr<const bundle>& x, size_t first, size_t last,
       const std::optional<gpu_place>& on = {}) = 0;

  /// Null where it can use none.
  virtual gpu_access* gpus() { return nullptr; }

  /// Without a split the model is one layer.
  /// Errors: bad_request when the file is no model of this backend, or cannot
  /// be cut.
  virtual result<model_parts>
  take_apart(const mapped_file& x,
             const std::optional<layer_split>& how = {}) = 0;
};

/// What a backend can do with GPUs. Errors: unavailable, where that is nothing.
result<gpu_access*> gpus_of(backend& x);

/// Loads the LibTorch plugin, once per process: from $MILLRACE_BACKEND, or
/// from the program folder. Takes 0.5 s and 150 MB, so only nodes
/// with a cpu device and `millrace model import` do it.
/// Errors: unavailable, with the loader's reason.
result<std::shared_ptr<backend>> torch_backend(code_trust trust);

} // namespace millrace
