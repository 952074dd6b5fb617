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

/// Whether a replica attaches parameters itself (builds a model of them in a
/// process of the host), or the host's process has it done once for all
/// replicas, which are forked from it.
enum class attach_mode : uint8_t {
  replica, ///< each replica attaches its layers
  host,    ///< a layer is attached once, and later replicas are forked
  never    ///< parameters are used where they lie
};

constexpr auto names_of(attach_mode) {
  return name_table{"replica", "host", "never"};
}

/// Which layers the process of a host has attached, for the emulated devices of
/// that host: Flashpoint, section 5.2. They stay attached as long as the
/// content is in the host's memory, and take no more of that. Any thread.
class host_process {
public:
  using loader = uint64_t;
  using content_pointer = std::shared_ptr<const bundle>;

  loader add_loader() {
    std::lock_guard guard{mutex_};
    return ++last_;
  }

  /// Of layers [first, last), those that neither are attached nor being
  /// attached: this loader attaches them from now on.
  std::vector<size_t> claim(const content_pointer& x, size_t first, size_t last,
                            loader by);

  /// When this loader is going to be done with those that it claimed.
  void expect(loader by, timestamp due);

  /// It is done with them.
  void attached(loader by);

  /// It does not attach them: another loader has to claim them.
  void give_up(loader by);

  /// When all of layers [first, last) are going to be attached, as far as is
  /// known; nothing: no other loader attaches any.
  std::optional<timestamp> due(const content_pointer& x, size_t first,
                               size_t last, loader by);

private:
  /// The loader that attaches a layer; 0: it is attached.
  using layers = std::map<size_t, loader>;

  struct content {
    std::weak_ptr<const void> alive;
    layers known;
  };

  static std::shared_ptr<const void> memory_of(const content_pointer& x);
  layers& find(const content_pointer& x);

  std::mutex mutex_;
  loader last_ = 0;
  std::map<const void*, content> contents_;
  std::map<loader, timestamp> due_;
};

} // namespace millrace
