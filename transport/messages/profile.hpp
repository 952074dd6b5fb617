// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/packed_profile.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// Operator to profiler: measure a model on a device without replicas, or with
/// idle replicas. Answered once the profile is on disk.
/// Errors: unknown_model; unavailable where no device is free, or where
/// requests came meanwhile; bad_request for rows or an extent that are beyond
/// the limits in measurer.hpp.
struct measure_model {
  std::string model;
  std::string version; ///< as in model_settings
  std::string device;  ///< kind, id, or NODE/ID; empty: any
  std::vector<uint64_t> rows{1, 2, 4, 8};
  /// Free extents of the inputs other than the rows; 0: the model's usual one.
  uint64_t extent = 0;
  /// Sets the profile's deadline to (1 + threshold) times the time of one row.
  double threshold = 1;
  MILLRACE_FIELDS(measure_model, model, version, device, rows, extent,
                  threshold)
};

/// Operator to profiler: a profile that was measured elsewhere. Replaces the
/// profile of these layers on the same kinds of device.
struct keep_profile {
  packed_profile what;
  MILLRACE_FIELDS(keep_profile, what)
};

/// Operator to profiler: deletes all profiles of a model, of any layers, and
/// the averages of its replicas. Errors: unknown_model if there are none.
struct forget_profiles {
  std::string model;
  MILLRACE_FIELDS(forget_profiles, model)
};

/// Requests the profiles of one model; empty: of all.
struct get_profiles {
  std::string model;
  MILLRACE_FIELDS(get_profiles, model)
};

/// Moving averages over starts from one source. Seconds.
struct start_average {
  double fetch = 0; ///< until the bundle was there and verified
  double load = 0;
  double warm_up = 0;
  uint64_t count = 0; ///< of starts
  MILLRACE_FIELDS(start_average, fetch, load, warm_up, count)
};

/// Moving averages of the costs of replicas of some layers of a model, on one
/// kind of device.
struct live_cost {
  std::string model;
  uint64_t version = 0;
  layer_range layers;
  std::string device;
  double execute = 0; ///< seconds per batch
  double batch = 0;   ///< requests per batch
  double fetch = 0;   ///< seconds until the bundle was on the host and verified
  double load = 0;    ///< seconds, without `fetch`
  double send = 0;    ///< seconds per batch, to the next part
  uint64_t executions = 0; ///< number of seconds in which batches ran
  uint64_t loads = 0;      ///< number of loads
  uint64_t sends = 0;      ///< number of sends
  /// By location of the bundle: disk, memory, hosts or stores.
  std::map<std::string, start_average> starts{};
  MILLRACE_FIELDS(live_cost, model, version, layers, device, execute, batch,
                  fetch, load, send, executions, loads, sends, starts)
};

struct profile_list {
  std::vector<packed_profile> profiles;
  std::vector<live_cost> live;
  MILLRACE_FIELDS(profile_list, profiles, live)
};

/// Requests the costs of a start in parts, computed from the layers' profiles.
struct get_plans {
  std::string model;
  std::string version; ///< as in model_settings
  std::string device;  ///< kind; empty: the only one with a profile
  uint64_t devices = 8;
  uint64_t requests = 3000; ///< largest number of waiting requests
  MILLRACE_FIELDS(get_plans, model, version, device, devices, requests)
};

/// The best cuts for `first` to `last` waiting requests; seconds as in
/// partition.
struct planned_range {
  uint64_t first = 0;
  uint64_t last = 0;
  std::vector<uint64_t> cuts;
  double cold = 0;
  double period = 0;
  double inference = 0;
  MILLRACE_FIELDS(planned_range, first, last, cuts, cold, period, inference)
};

struct plan_list {
  std::string device;
  std::vector<planned_range> ranges;
  /// Identifies the plans: versions with the same layers share them.
  uint64_t number = 0;
  MILLRACE_FIELDS(plan_list, device, ranges, number)
};

/// Controller to node: measure a model on this device. Answered by measured.
struct measure {
  std::string model;
  uint64_t version = 0;
  std::string device; ///< id
  std::vector<uint64_t> rows;
  uint64_t extent = 0; ///< as in measure_model
  double threshold = 1;
  MILLRACE_FIELDS(measure, model, version, device, rows, extent, threshold)
};

struct measured {
  packed_profile what;
  MILLRACE_FIELDS(measured, what)
};

} // namespace millrace
