// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "models/contention/law.hpp"
#include "models/device/device.hpp"
#include "models/device/host_process.hpp"
#include "models/profile_book.hpp"
#include "runtime/random.hpp"

namespace millrace {

/// In which order a start gets bytes and loads them.
enum class load_steps : uint8_t { streamed, sequential };

constexpr auto names_of(load_steps) {
  return name_table{"streamed", "sequential"};
}

/// How an emulated device takes its time.
struct emulation {
  microseconds load{50'000};
  microseconds per_batch{1000};
  microseconds per_row{100};
  double cv = 0;
  double share_penalty = 1;
  contention_settings interference{};
  load_steps steps = load_steps::streamed;
  attach_mode attach = attach_mode::replica;
  microseconds fork{0};
  MILLRACE_FIELDS(emulation, load, per_batch, per_row, cv, share_penalty,
                  interference, steps, attach, fork)
  static constexpr auto notes() {
    return std::array{
      note{"time to load a model, where no profile tells", 0, 3600},
      note{"time of an execution, where no profile tells", 0, 3600},
      note{"and of each row in it", 0, 3600},
      note{"coefficient of variation of these times (gamma distributed; 1:"
           " exponential)",
           0, 10},
      note{"a share s of the device makes work longer by s to the power of"
           " minus this",
           0, 4},
      note{"how neighbours slow each other down"},
      note{"whether a load proceeds while its bytes come (streamed: a start"
           " takes as long as the slower of the two) or begins once all of"
           " them are there (sequential)"},
      note{"replica: each replica attaches parameters to a model of its own;"
           " host: the host's process does it once for each layer, and later"
           " replicas are forked from it; never: they are used where they lie."
           " The rest of a load, its send_seconds, each replica takes"},
      note{"what a replica takes to be forked, with attach: host", 0, 3600}};
  }
};

/// What an emulated device takes from its surroundings; all of it may be left
/// out.
struct emulated_environment {
  std::shared_ptr<const profile_book> profiles;
  double times_slower = 1; ///< at first; slow_down changes the factor
  std::optional<random_stream> random; ///< with a cv
  /// Shared by all devices of a host; null: of this device alone.
  std::shared_ptr<host_process> process;
  uint64_t contention_seed = 0; ///< of the device's drawn slowdowns
};

/// A device that computes nothing: it answers with zeros of the signature's
/// shape after the time that the model's profile on this kind of device gives
/// (metrics execute_seconds, at the replica's share and threads where these
/// were measured, and load_seconds), or the emulation. Batches that run at once
/// slow each other down as measured (dimension at_once) where all are of one
/// model, else by the law of `interference`, which sees each batch's model,
/// rows, share and profile metrics at these rows: with one measured size its
/// value, with several ones straight lines between them, prolonged as curve::at
/// has it. The rest of running work is computed anew whenever its neighbours
/// change. Lives on the actor clock, so that it behaves alike in a simulation.
std::unique_ptr<device>
make_emulated_device(device_info info, emulation how, device_listener& listener,
                     emulated_environment environment = {});

} // namespace millrace
