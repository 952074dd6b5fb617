// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "models/bundle.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Whether each replica attaches parameters itself (builds a model with them in
/// a process of the host), or the host's process does so once for all replicas,
/// which are forked from it.
enum class attach_mode : uint8_t {
  replica, ///< each replica attaches its layers
  host,    ///< a layer is attached once, and later replicas are forked
  never    ///< parameters are used in place
};

constexpr auto names_of(attach_mode) {
  return name_table{"replica", "host", "never"};
}

/// Which layers the process of a host has attached, for the emulated devices of
/// the host: Flashpoint, section 5.2. Layers stay attached while the content
/// is in the host's memory, and take no more memory. Any thread.
class host_process {
public:
  using loader = uint64_t;
  using content_pointer = std::shared_ptr<const bundle>;

  loader add_loader() {
    std::lock_guard guard{mutex_};
    return ++last_;
  }

  /// Assigns to this loader those of layers [first, last) that are neither
  /// attached nor being attached, and returns them.
  std::vector<size_t> claim(const content_pointer& content, size_t first,
                            size_t last, loader by);

  /// The time at which this loader will have attached its layers.
  void expect(loader by, timestamp due);

  /// The loader has attached its layers.
  void attached(loader by);

  /// The loader does not attach its layers: another loader has to claim them.
  void give_up(loader by);

  /// When all of layers [first, last) will be attached, as far as is known;
  /// nothing: no other loader attaches any.
  std::optional<timestamp> due(const content_pointer& content, size_t first,
                               size_t last, loader by);

private:
  /// The loader that attaches a layer; 0: it is attached.
  using layers = std::map<size_t, loader>;

  struct content {
    std::weak_ptr<const void> alive;
    layers known;
  };

  static std::shared_ptr<const void> memory_of(const content_pointer& content);
  layers& find(const content_pointer& content);

  std::mutex mutex_;
  loader last_ = 0;
  std::map<const void*, content> contents_;
  std::map<loader, timestamp> due_;
};

} // namespace millrace
