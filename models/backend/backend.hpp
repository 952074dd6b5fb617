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
#include "models/gpu/gpu.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Memory in which a pass may make its outputs, so that they need not be copied
/// there.
struct output_room {
  shared_bytes memory; ///< written by the pass alone, 64-byte aligned
  size_t used = 0;     ///< set by the pass: bytes in use, from the beginning
  bool kept = false;   ///< set by the pass: the model keeps using some bytes
};

/// When to stop a run.
struct run_limits {
  timestamp until = far_future; ///< deadline of the results
  /// Requested when no request waits for the results.
  std::stop_token unwanted{};
  nanoseconds usual{0}; ///< expected time for its size; 0: unknown
  /// The run is not stopped before, whatever the other fields are.
  nanoseconds least{0};
  /// No request is to blame for a run that takes too long.
  bool of_nobody = false;
};

/// A range of a model's layers, ready to run. Safe to run from several threads.
class loaded_stage {
public:
  virtual ~loaded_stage() = default;

  /// One forward pass over a batch. A run that can be stopped is stopped at a
  /// limit. If `peak` is not null, it receives the highest number of bytes of
  /// tensors allocated at once, with the outputs but not those in `room`. A
  /// stage without a use for `room` leaves it unchanged. Errors:
  /// - internal with the backend's own text;
  /// - overloaded when a GPU has no memory left;
  /// - unavailable when this process can no longer use the GPU;
  /// - of a stage in another process: poison when this run ended the process,
  ///   cancelled when another run did, unavailable when it had ended before.
  virtual result<tensor_list> run(const tensor_list& inputs,
                                  const run_limits& limits = {},
                                  uint64_t* peak = nullptr,
                                  output_room* room = nullptr) = 0;

  /// Whether the run time may depend on the inputs' values, not on their
  /// extents alone.
  virtual bool depends_on_values() const = 0;

  /// This part of the weights is present, or all weights. Copies them if they
  /// have to lie elsewhere, once; one call at a time. The first run follows the
  /// last part; on a GPU it may come before, and each layer waits for its own
  /// parameters.
  /// Errors: as run.
  virtual result<void> arrive(std::optional<const_bytes> part = {}) {
    static_cast<void>(part);
    return {};
  }

  /// The absent weights will never arrive: runs that wait for them fail. Any
  /// thread.
  virtual void give_up_parameters() {}

  /// GPU memory that the stage occupies: its parameters, and memory kept for
  /// its passes, as far as that is known.
  virtual byte_count memory() const { return {}; }
};

/// A model file taken apart for import.
struct model_parts {
  struct input {
    std::string name; ///< letters, digits, '_' and '.'
    std::string type; ///< in the notation of the model's language
  };
  /// As layer_info, but inputs have the names in `inputs`.
  struct layer {
    std::string name;
    std::vector<std::string> takes, gives;
    std::string code;
    /// In memory that is never written again.
    std::vector<named_tensor> parameters;
  };
  static constexpr size_t most_findings = 16; ///< per kind
  std::vector<input> inputs;
  std::vector<layer> layers;
  // Operators of forward, each as "aten::max at model.py:12".
  /// Operators that make numbers, extents or branches of a whole batch's
  /// values.
  std::vector<std::string> couples_rows;
  /// Operators that write state that later calls read.
  std::vector<std::string> keeps_state;
  std::vector<std::string> outputs; ///< keys of the returned dictionary
};

/// How a model file is cut into layers: where the model enters and leaves parts
/// of itself, down to `depth` names ("encoder.layer.3" has three).
struct layer_split {
  uint32_t depth = 4;
  uint32_t inputs = 1; ///< number of forward's arguments that are given
  /// Numbers of the layers that begin a merged layer; empty: all do.
  std::vector<uint32_t> firsts;
};

/// Whether a backend loads code as trusted. Untrusted code is refused when it
/// calls an operator that opens files: the sources are checked before they are
/// loaded, the compiled code afterwards. This check gives an early error; the
/// sandboxed process is what enforces the rule.
enum class code_trust : uint8_t { none, full };

/// A runtime for models: LibTorch today, behind an interface so that others can
/// be added.
class backend {
public:
  virtual ~backend() = default;

  /// "LibTorch 1.13.1, CPU".
  virtual std::string describe() const = 0;

  /// To be called once in each thread that runs stages: sets the number of
  /// threads of one operator.
  virtual void enter_thread(int threads) = 0;

  /// Loads layers [first, last). Parameters are used where they are mapped, or
  /// lie on a GPU. Their bytes are not read before arrive().
  /// Errors: internal when the code does not parse, names other parameters, or
  /// calls an operator that needs trust; overloaded when a GPU has no memory
  /// left, unavailable when there is none.
  virtual result<std::unique_ptr<loaded_stage>>
  load(const std::shared_ptr<const bundle>& opened, size_t first, size_t last,
       const std::optional<gpu_place>& on = {}) = 0;

  /// Null if the backend can use no GPU.
  virtual gpu_access* gpus() { return nullptr; }

  /// Takes a model file apart; without a split the model is one layer.
  /// Errors: bad_request when the file is no model of this backend, or cannot
  /// be cut.
  virtual result<model_parts>
  take_apart(const mapped_file& mapping,
             const std::optional<layer_split>& how = {}) = 0;
};

/// The backend's access to GPUs.
/// Errors: unavailable if it has none.
result<gpu_access*> gpus_of(backend& runner);

/// Loads the LibTorch plugin, once per process: from $MILLRACE_BACKEND, or from
/// the program folder. Takes 0.5 s and 150 MB, so only nodes with a cpu device
/// and `millrace model import` do it.
/// Errors: unavailable, with the loader's reason.
result<std::shared_ptr<backend>> torch_backend(code_trust trust);

} // namespace millrace
