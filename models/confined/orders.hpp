// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// \file
/// What a node, the template of its confined processes and these say to each
/// other; see README.md beside this. Both ends are of one build.
namespace millrace::confined {

/// Long enough for what a backend says.
using sentence = char[1024];

// -- node and template --------------------------------------------------------

/// The template, once it can fork.
struct greeting {
  bool able = false;
  sentence text = {}; ///< "LibTorch 1.13.1, CPU", or why not
};

struct template_order {
  enum kind : uint8_t {
    fork, ///< comes with the new process's end of its life line
    end   ///< kills it, if it lives
  };
  kind what = fork;
  int32_t process = 0; ///< to end
};

struct template_answer {
  int32_t process = 0; ///< that was forked; negative: it could not be
  int32_t status = 0;  ///< of the one that has ended, as waitpid(2) has it
};

// -- node and process, on its life line ---------------------------------------

/// Comes with files: the bundle's manifest and code, one after the other; the
/// weights, if there are any; the process's end of each lane.
struct load_order {
  uint64_t manifest_bytes = 0;
  uint64_t first_layer = 0;
  uint64_t last_layer = 0;
  uint64_t max_batch = 1;
  uint64_t memory = 0; ///< beside the weights
  uint32_t threads = 1;
  uint32_t lanes = 1;
};

struct load_answer {
  bool loaded = false;
  int64_t load_ns = 0;
  int64_t warm_up_ns = 0;
  sentence text = {}; ///< why not
};

// -- node and process, on a lane ----------------------------------------------

struct lane_order {
  enum kind : uint8_t {
    run,  ///< what lies in the arena
    fetch ///< the outputs that did not fit
  };
  kind what = run;
  uint32_t tensors = 0;
  uint64_t arena = 0; ///< bytes of a new one, which comes with this; else 0
};

struct lane_answer {
  enum kind : uint8_t { done, failed, needs_room };
  kind what = failed;
  uint32_t tensors = 0;
  uint64_t room = 0;  ///< bytes of an arena that its outputs fit into
  sentence text = {}; ///< why it failed
};

} // namespace millrace::confined
