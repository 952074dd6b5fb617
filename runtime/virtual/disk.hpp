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

/// What a process does to a disk.
enum class disk_step : uint8_t {
  read,
  create,
  append,
  sync,
  rename,
  sync_names,
};

/// A host's disk in the simulated world: it outlives the processes that write
/// to it, and does to what was not synced all that a real one may.
class virtual_disk : public std::enable_shared_from_this<virtual_disk> {
public:
  /// Chance decides what becomes of what was not synced.
  explicit virtual_disk(random_stream random) : random_(std::move(random)) {}

  /// For a process. It keeps this disk alive.
  std::unique_ptr<disk> open();

  /// Has steps fail for which this is true; each is asked about once. A failed
  /// append writes a part; what a failed sync was to save is never saved, even
  /// by a later sync that succeeds, as with Linux.
  void fail(std::function<bool(disk_step)> when) { fails_ = std::move(when); }

  /// Of what was not synced, some is there afterwards and some is not: files
  /// end anywhere, sectors are missing in the middle, names are old or new.
  void lose_power();

  void wipe();

  /// The bytes of a file, for who damages or inspects them; null: none.
  std::string* content(const std::string& name);

private:
  class view;

  /// A byte is on disk, on its way there, or only in memory since a sync that
  /// was to write it failed.
  enum class place : uint8_t { durable, pending, given_up };

  struct file {
    std::string bytes;
    std::vector<place> places; ///< of each byte
  };
  using file_ptr = std::shared_ptr<file>;
  using name_map = std::map<std::string, file_ptr>;

  /// A change of names that is not synced.
  struct naming {
    std::string name;
    file_ptr what;
    std::string gone; ///< empty: none
  };

  bool fails(disk_step x) { return fails_ && fails_(x); }
  void name(naming x);
  static void apply(name_map& names, const naming& x);
  void tear(file& x);

  random_stream random_;
  std::function<bool(disk_step)> fails_;
  name_map names_;
  name_map durable_names_;
  std::vector<naming> pending_;
};

} // namespace millrace
