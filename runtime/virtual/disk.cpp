// SPDX-License-Identifier: Apache-2.0
#include "runtime/virtual/disk.hpp"

#include <algorithm>

namespace millrace {

namespace {

constexpr size_t sector = 512;

error refused(const std::string& path, const char* what) {
  return {
    ec::unavailable, path + ": cannot be " + what + ": the disk failed", {}};
}

} // namespace

/// The interface of one process to the disk.
class virtual_disk::view : public disk {
public:
  explicit view(std::shared_ptr<virtual_disk> x) : disk_(std::move(x)) {}

  std::string path_of(const std::string& name) const override { return name; }

  result<bool> has(const std::string& name) override {
    if (disk_->fails(disk_step::read))
      return refused(name, "looked at");
    return disk_->names_.contains(name);
  }

  result<std::optional<std::string>> read(const std::string& name,
                                          size_t most) override {
    if (disk_->fails(disk_step::read))
      return refused(name, "read");
    auto i = disk_->names_.find(name);
    if (i == disk_->names_.end())
      return std::optional<std::string>{};
    if (i->second->bytes.size() > most)
      return error{ec::too_large, name + ": is too large", {}};
    return std::optional{i->second->bytes};
  }

  result<void> create(const std::string& name) override {
    if (disk_->fails(disk_step::create))
      return refused(name, "created");
    disk_->name({name, std::make_shared<file>(), {}});
    return {};
  }

  result<void> append(const std::string& name,
                      std::string_view bytes) override {
    auto& x = *disk_->names_.at(name);
    auto failed = disk_->fails(disk_step::append);
    if (failed)
      bytes = bytes.substr(0, disk_->random_.below(bytes.size() + 1));
    x.bytes += bytes;
    x.places.resize(x.bytes.size(), place::pending);
    return failed ? result<void>{refused(name, "written")} : result<void>{};
  }

  result<void> sync(const std::string& name) override {
    auto failed = disk_->fails(disk_step::sync);
    auto& places = disk_->names_.at(name)->places;
    std::replace(places.begin(), places.end(), place::pending,
                 failed ? place::given_up : place::durable);
    return failed ? result<void>{refused(name, "synced")} : result<void>{};
  }

  result<void> rename(const std::string& from, const std::string& to) override {
    if (disk_->fails(disk_step::rename))
      return refused(from, "renamed");
    disk_->name({to, disk_->names_.at(from), from});
    return {};
  }

  result<void> sync_names() override {
    if (disk_->fails(disk_step::sync_names))
      return refused(".", "synced");
    disk_->durable_names_ = disk_->names_;
    disk_->pending_.clear();
    return {};
  }

private:
  std::shared_ptr<virtual_disk> disk_;
};

std::unique_ptr<disk> virtual_disk::open() {
  return std::make_unique<view>(shared_from_this());
}

void virtual_disk::apply(name_map& names, const naming& change) {
  names[change.name] = change.what;
  if (!change.gone.empty())
    names.erase(change.gone);
}

void virtual_disk::name(naming change) {
  apply(names_, change);
  pending_.push_back(std::move(change));
}

/// Applies a power loss to a file: durable bytes stay, unsynced bytes may
/// change.
void virtual_disk::tear(file& torn) {
  auto last =
    std::find(torn.places.rbegin(), torn.places.rend(), place::durable);
  auto safe = static_cast<size_t>(torn.places.rend() - last);
  for (size_t i = 0; i < safe; ++i)
    if (torn.places[i] != place::durable)
      torn.bytes[i] = '\0';
  auto end = safe + random_.below(torn.bytes.size() - safe + 1);
  switch (random_.below(4)) {
  case 0: // lose all unsynced bytes at the end
    end = safe;
    break;
  case 1: // keep all bytes
    end = torn.bytes.size();
    break;
  case 2: // keep a part
    break;
  default: // keep the length, with zeros for unwritten sectors
    for (auto at = safe; at < end; at = (at / sector + 1) * sector)
      if (random_.below(2) == 0)
        std::fill(
          torn.bytes.begin() + static_cast<ptrdiff_t>(at),
          torn.bytes.begin()
            + static_cast<ptrdiff_t>(std::min(end, (at / sector + 1) * sector)),
          '\0');
  }
  torn.bytes.resize(end);
  torn.places.assign(end, place::durable);
}

void virtual_disk::lose_power() {
  auto names = durable_names_;
  auto all = random_.below(2) == 0;
  for (auto& x : pending_)
    if (all || random_.below(2) == 0)
      apply(names, x);
  for (auto& [name, x] : names)
    tear(*x);
  names_ = durable_names_ = std::move(names);
  pending_.clear();
}

void virtual_disk::wipe() {
  names_.clear();
  durable_names_.clear();
  pending_.clear();
}

std::string* virtual_disk::content(const std::string& name) {
  auto i = names_.find(name);
  return i == names_.end() ? nullptr : &i->second->bytes;
}

} // namespace millrace
