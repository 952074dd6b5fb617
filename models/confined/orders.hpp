// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "models/device/gpu.hpp"

/// \file
/// What a node, the template of its confined processes and these say to each
/// other; see README.md beside this. Both ends are of one build.
namespace millrace::confined {

/// Long enough for what a backend says.
using sentence = char[1024];

inline void say(sentence& to, const std::string& text) {
  std::snprintf(to, sizeof to, "%s", text.c_str());
}

/// What a process has said. A model may have put it there, so no character of
/// it does anything to a terminal.
inline std::string text_of(const sentence& x) {
  std::string out{x, ::strnlen(x, sizeof x)};
  for (auto& c : out)
    if (c < ' ' || c > '~')
      c = '?';
  return out;
}

// -- node and template --------------------------------------------------------

/// The template, once it can fork.
struct greeting {
  bool able = false;
  sentence text = {}; ///< "LibTorch 1.13.1, CPU", or why not
};

struct template_order {
  enum kind : uint8_t {
    fork,  ///< comes with the new process's end of its life line
    forget ///< one that has ended, or will
  };
  kind what = fork;
  int32_t process = 0; ///< to forget
};

struct template_answer {
  /// That was forked, negative: it could not be; or that has ended.
  int32_t process = 0;
  int32_t status = 0; ///< of that, as waitpid(2) has it
};

/// A process that stages share has no more of the allocator's heaps.
constexpr int most_heaps = 8;

// -- node and process, on its life line ---------------------------------------

/// Layers that a model may be cut into.
constexpr size_t most_firsts = 1024;

/// What a process is there for.
struct life_order {
  enum kind : uint8_t {
    /// Comes with files: the bundle's manifest and code, one after the other;
    /// the weights, if there are any, of which the bytes may be yet to come;
    /// the process's end of each lane. Answered by a load_answer.
    load,
    /// Some of the weights' bytes have come. Not answered.
    part,
    /// All of them have. Answered by a load_answer.
    warm_up,
    /// Comes with a model's file and one lane, on which it is answered: by
    /// what parts.hpp writes.
    take_apart,
    /// Comes with a stage's life line, on which its load follows, and a
    /// connection to be closed when it has left: it is one of several that
    /// share the process, which opens the GPU and is confined as the first
    /// one's says. Not answered.
    beside
  };
  kind what = load;
  uint8_t trusted = 0;       ///< 1: somebody vouches for the code
  uint8_t in_background = 0; ///< 1: to be loaded when nobody else has work
  uint8_t on_gpu = 0;        ///< 1: there is a place
  gpu_place place;
  uint64_t memory = 0; ///< bytes, beside the files'
  uint32_t threads = 1;
  uint32_t lanes = 1;
  uint64_t part_begin = 0; ///< in the file of the weights
  uint64_t part_bytes = 0;
  uint64_t packed_bytes = 0; ///< of manifest and code
  uint64_t manifest_bytes = 0;
  uint64_t weights_bytes = 0;
  uint64_t first_layer = 0;
  uint64_t last_layer = 0;
  uint64_t max_batch = 0; ///< rows to warm up with; 0: not at all
  // A layer_split, to take apart with.
  uint32_t depth = 0; ///< 0: none
  uint32_t inputs = 0;
  uint32_t first_count = 0;
  uint32_t firsts[most_firsts] = {};
};

struct load_answer {
  uint8_t loaded = 0;      ///< 0: no
  uint8_t gpu_is_lost = 0; ///< 1: this process can run nothing there
  int64_t load_ns = 0;
  int64_t warm_up_ns = 0;
  int64_t cpu_ns = 0;     ///< of both, on all processors
  uint64_t gpu_bytes = 0; ///< of a GPU's memory, that it takes
  sentence text = {};     ///< why not; if loaded, why a warm-up failed
};

// -- node and process, on a lane ----------------------------------------------

struct lane_order {
  enum kind : uint8_t {
    run,  ///< what lies in that arena; or, once, take the file apart
    fetch ///< the outputs that did not fit
  };
  kind what = run;
  uint8_t meter = 0;  ///< 1: the answer is to say what memory it took
  uint32_t arena = 0; ///< its number, below arena_pool::size
  uint32_t tensors = 0;
  uint64_t room = 0;    ///< bytes of a new one, which comes with this; else 0
  uint32_t threads = 0; ///< of this run
};

struct lane_answer {
  enum kind : uint8_t {
    done,
    failed,
    needs_room,
    no_memory,  ///< of a GPU, for this
    gpu_is_lost ///< this process can run nothing there any more, and ends
  };
  kind what = failed;
  uint32_t tensors = 0;
  uint8_t keeps = 0;   ///< 1: the model goes on using this run's arena
  uint64_t copied = 0; ///< bytes of outputs, into an arena
  uint64_t room = 0;   ///< bytes of an arena that its outputs fit into
  uint64_t peak = 0;   ///< bytes, if that was metered
  sentence text = {};  ///< why it failed
};

} // namespace millrace::confined
