// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/random.hpp"
#include "runtime/store/disk.hpp"

namespace millrace {

/// Operations of a process on a disk.
enum class disk_step : uint8_t {
  read,
  create,
  append,
  sync,
  rename,
  sync_names,
};

/// A host's disk in the simulated world. The disk outlives the processes that
/// write to it. A power loss treats unsynced data in all ways that a real disk
/// may.
class virtual_disk : public std::enable_shared_from_this<virtual_disk> {
public:
  /// `random` decides the fate of unsynced data.
  explicit virtual_disk(random_stream random) : random_(std::move(random)) {}

  /// Opens the disk for a process; the result keeps this disk alive.
  std::unique_ptr<disk> open();

  /// Makes operations fail for which `when` returns true; called once for each
  /// operation. A failed append writes a part of its bytes. Bytes of a failed
  /// sync are never saved, not even by a later successful sync, as on Linux.
  void fail(std::function<bool(disk_step)> when) { fails_ = std::move(when); }

  /// Keeps some of the unsynced data and loses the rest: files end anywhere,
  /// sectors in the middle are missing, names are old or new.
  void lose_power();

  void wipe();

  /// The bytes of a file, for tests that damage or inspect them; null when the
  /// file does not exist.
  std::string* content(const std::string& name);

private:
  class view;

  /// State of a byte: on disk, waiting for a sync, or lost to a failed sync and
  /// only in memory.
  enum class place : uint8_t { durable, pending, given_up };

  struct file {
    std::string bytes;
    std::vector<place> places; ///< state of each byte
  };
  using file_ptr = std::shared_ptr<file>;
  using name_map = std::map<std::string, file_ptr>;

  /// A create or rename that is not synced.
  struct naming {
    std::string name;
    file_ptr what;
    std::string gone; ///< old name of a rename; empty for a create
  };

  bool fails(disk_step step) { return fails_ && fails_(step); }
  void name(naming change);
  static void apply(name_map& names, const naming& change);
  void tear(file& torn);

  random_stream random_;
  std::function<bool(disk_step)> fails_;
  name_map names_;
  name_map durable_names_;
  std::vector<naming> pending_;
};

} // namespace millrace
