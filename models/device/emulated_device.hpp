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

/// Whether a start loads parameters while bytes arrive, or afterwards.
enum class load_steps : uint8_t { streamed, sequential };

constexpr auto names_of(load_steps) {
  return name_table{"streamed", "sequential"};
}

/// Times of an emulated device.
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
      note{"time to load a model, if no profile has it", 0, 3600},
      note{"time of an execution, if no profile has it", 0, 3600},
      note{"additional time of each row of an execution", 0, 3600},
      note{"coefficient of variation of these times (gamma distributed; 1:"
           " exponential)",
           0, 10},
      note{"a share s of the device makes work longer by s to the power of"
           " minus this",
           0, 4},
      note{"how neighbours slow each other down"},
      note{"whether a load proceeds while its bytes arrive (streamed: a start"
           " takes as long as the slower of the two) or begins after all"
           " bytes (sequential)"},
      note{"replica: each replica attaches parameters to a model of its own;"
           " host: the host's process does it once for each layer, and later"
           " replicas are forked from it; never: they are used in place. Each"
           " replica also takes the rest of a load, its send_seconds"},
      note{"time to fork a replica, with attach: host", 0, 3600}};
  }
};

/// Optional surroundings of an emulated device.
struct emulated_environment {
  std::shared_ptr<const profile_book> profiles;
  double times_slower = 1;             ///< initial factor; slow_down changes it
  std::optional<random_stream> random; ///< needed if cv is not 0
  /// Shared by all devices of a host; null: private to this device.
  std::shared_ptr<host_process> process;
  uint64_t contention_seed = 0; ///< of the random slowdowns of the device
};

/// A device that computes nothing: it answers with zeros of the signature's
/// shape after an execution time.
/// - The time is from the model's profile on this kind of device (metrics
///   execute_seconds, at the replica's share and threads where these were
///   measured, and load_seconds), else from the emulation.
/// - Concurrent batches slow each other down as measured (dimension at_once) if
///   all are of one model, else by the law of `interference`. The law gets each
///   batch's model, rows, share and profile metrics at these rows: one measured
///   size gives a constant, several give lines as in curve::at.
/// - Remaining times are computed again whenever the set of running batches
///   changes.
/// The device lives on the actor clock, so that it behaves alike in a
/// simulation.
std::unique_ptr<device>
make_emulated_device(device_info info, emulation how, device_listener& listener,
                     emulated_environment environment = {});

} // namespace millrace
