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

/// The models of a bench, and the nodes that serve them.
struct bench_setup {
  std::string folder;              ///< for config and data of this bench
  std::string bundles;             ///< folder of the bundles
  std::vector<std::string> models; ///< entries of the config's list, as YAML
  size_t workers = 0; ///< nodes besides the one of gateway and controller; 0:
                      ///< that node is the worker, too
  recording mode = recording::off;
  isolation_mode where = isolation_mode::thread;
};

/// A cluster of nodes of this program in child processes, which serves models
/// over TCP. The destructor ends the nodes.
class bench_cluster {
public:
  /// Errors: unavailable.
  static result<std::unique_ptr<bench_cluster>> start(const bench_setup& setup);

  /// A client, once this number of models is served. Errors: unavailable after
  /// 30 s.
  result<client> connect(size_t models);

  /// A client for operators. Errors: unavailable.
  result<operator_client> operate() const;

  /// The memory of all processes. Errors: as service::memory.
  result<held_memory> memory() const;

  /// The names of the worker nodes.
  const std::vector<std::string>& workers() const { return workers_; }

private:
  bench_cluster() = default;

  std::string clients_, operators_; ///< addresses
  std::vector<std::string> workers_;
  std::vector<std::unique_ptr<service>> nodes_;
};

/// The folder for the files of a bench's clusters; removed at the end.
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

/// The models' own folder, if it has the models. Errors: unavailable, with the
/// command that makes the models.
result<std::string> bundles_with(const std::string& folder,
                                 const std::vector<std::string>& models,
                                 const std::string& made_by);

} // namespace millrace
