// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "models/gpu/gpu.hpp"

/// \file
/// Messages between a node, the template of its confined processes, and these
/// processes; see README.md here. Both ends are of one build.
namespace millrace::confined {

/// A text of a message, cut to fit.
using sentence = char[1024];

inline void say(sentence& to, const std::string& text) {
  std::snprintf(to, sizeof to, "%s", text.c_str());
}

/// The text of a message. A model may have written it, so characters that
/// control a terminal are replaced.
inline std::string text_of(const sentence& text) {
  std::string out{text, ::strnlen(text, sizeof text)};
  for (auto& c : out)
    if (c < ' ' || c > '~')
      c = '?';
  return out;
}

// -- node and template --------------------------------------------------------

/// Sent by the template once it can fork.
struct greeting {
  bool able = false;
  sentence text = {}; ///< "LibTorch 1.13.1, CPU", or the error
};

struct template_order {
  enum kind : uint8_t {
    fork,  ///< carries the new process's end of its life line
    forget ///< a process has ended, or will
  };
  kind what = fork;
  int32_t process = 0; ///< of `forget`
};

struct template_answer {
  /// The forked process, or negative: fork failed; or the ended process.
  int32_t process = 0;
  int32_t status = 0; ///< of the ended process, as in waitpid(2)
};

/// Upper limit of the allocator's heaps in a process that stages share.
constexpr int most_heaps = 8;

// -- node and process, on its life line ---------------------------------------

/// Upper limit of the layers that a model may be cut into.
constexpr size_t most_firsts = 1024;

/// An order to a process.
struct life_order {
  enum kind : uint8_t {
    /// Loads a stage. Carries these files: the bundle's manifest and code,
    /// concatenated; the weights, if any, which may still be arriving; the
    /// process's end of each lane. Answered by a load_answer.
    load,
    /// A part of the weights has arrived. Not answered.
    part,
    /// All weights have arrived. Answered by a load_answer.
    warm_up,
    /// Takes a model's file apart. Carries the file and one lane, on which the
    /// answer follows: the parts as parts.hpp writes them.
    take_apart,
    /// Adds a stage to a process that several share. Carries the stage's life
    /// line, on which its load order follows, and a connection that the process
    /// closes when the stage has left. The process opens the GPU and confines
    /// itself as the first such order requires. Not answered.
    beside
  };
  kind what = load;
  uint8_t trusted = 0;       ///< 1: operators are not checked
  uint8_t in_background = 0; ///< 1: loads at low priority
  uint8_t on_gpu = 0;        ///< 1: `place` is set
  gpu_place place;
  uint64_t memory = 0; ///< bytes, besides the files
  uint32_t threads = 1;
  uint32_t lanes = 1;
  uint64_t part_begin = 0; ///< offset in the file of the weights
  uint64_t part_bytes = 0;
  uint64_t packed_bytes = 0; ///< of manifest and code
  uint64_t manifest_bytes = 0;
  uint64_t weights_bytes = 0;
  uint64_t first_layer = 0;
  uint64_t last_layer = 0;
  uint64_t max_batch = 0; ///< rows of the warm-up; 0: none
  // A layer_split, for take_apart.
  uint32_t depth = 0; ///< 0: none
  uint32_t inputs = 0;
  uint32_t first_count = 0;
  uint32_t firsts[most_firsts] = {};
};

struct load_answer {
  uint8_t loaded = 0;      ///< 0: failed
  uint8_t gpu_is_lost = 0; ///< 1: the process can no longer use its GPU
  int64_t load_ns = 0;
  int64_t warm_up_ns = 0;
  int64_t cpu_ns = 0;     ///< of load and warm-up, on all processors
  uint64_t gpu_bytes = 0; ///< GPU memory that the stage occupies
  sentence text = {};     ///< error; if loaded, why the warm-up failed
};

// -- node and process, on a lane ----------------------------------------------

struct lane_order {
  enum kind : uint8_t {
    run,  ///< run the arena's inputs; or, once, take the file apart
    fetch ///< get the outputs that did not fit
  };
  kind what = run;
  uint8_t meter = 0;  ///< 1: the answer shall have `peak`
  uint32_t arena = 0; ///< number of the arena, below arena_pool::size
  uint32_t tensors = 0;
  uint64_t room = 0;    ///< bytes of a new arena, sent with this; else 0
  uint32_t threads = 0; ///< for this run
};

struct lane_answer {
  enum kind : uint8_t {
    done,
    failed,
    needs_room,
    no_memory,  ///< of a GPU, for this run
    gpu_is_lost ///< the process can no longer use its GPU, and ends
  };
  kind what = failed;
  uint32_t tensors = 0;
  uint8_t keeps = 0;   ///< 1: the model keeps using this run's arena
  uint64_t copied = 0; ///< bytes of outputs copied into an arena
  uint64_t room = 0;   ///< bytes of an arena that fits the outputs
  uint64_t peak = 0;   ///< bytes, if `meter` was set
  sentence text = {};  ///< the error
};

} // namespace millrace::confined
