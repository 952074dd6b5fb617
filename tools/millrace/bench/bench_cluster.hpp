// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/client.hpp"
#include "client/operator_client.hpp"
#include "millrace/child.hpp"
#include "models/device/device.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

/// What a bench has served, and by what.
struct bench_setup {
  std::string folder;              ///< for its config and data, of its own
  std::string bundles;             ///< where they are
  std::vector<std::string> models; ///< entries of the config's list, as YAML
  size_t workers = 0; ///< nodes beside the one of gateway and controller; 0:
                      ///< that one works, too
  recording mode = recording::off;
  isolation_mode where = isolation_mode::thread;
};

/// A cluster of nodes of this very program, in processes of their own, that
/// serves models over TCP. Its nodes end with it.
class bench_cluster {
public:
  /// Errors: unavailable.
  static result<std::unique_ptr<bench_cluster>> start(const bench_setup& x);

  /// A client, once so many models are served. Errors: unavailable after 30 s.
  result<client> connect(size_t models);

  /// To look at it and to change it. Errors: unavailable.
  result<operator_client> operate() const;

  /// That its processes have, all of them. Errors: as service::memory.
  result<held_memory> memory() const;

  /// The nodes that work.
  const std::vector<std::string>& workers() const { return workers_; }

private:
  bench_cluster() = default;

  std::string clients_, operators_; ///< addresses
  std::vector<std::string> workers_;
  std::vector<std::unique_ptr<service>> nodes_;
};

/// Where a bench's clusters keep what they need, until the bench ends.
class scratch_folder {
public:
  scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder();

  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

private:
  std::string path_;
};

/// The models' own folder, if they are there. Errors: unavailable, with what
/// makes them.
result<std::string> bundles_with(const std::string& folder,
                                 const std::vector<std::string>& models,
                                 const std::string& made_by);

} // namespace millrace
