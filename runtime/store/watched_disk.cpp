// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/disk.hpp"

namespace millrace {

namespace {

class watched_disk : public disk {
public:
  watched_disk(std::unique_ptr<disk> x,
               std::function<void(const result<void>&)> tell)
    : disk_(std::move(x)),
      tell_(std::move(tell)) {}

  std::string path_of(const std::string& name) const override {
    return disk_->path_of(name);
  }
  result<bool> has(const std::string& name) override {
    return disk_->has(name);
  }
  result<std::optional<std::string>> read(const std::string& name,
                                          size_t most) override {
    return disk_->read(name, most);
  }
  result<void> create(const std::string& name) override {
    return told_failure(disk_->create(name));
  }
  result<void> append(const std::string& name,
                      std::string_view bytes) override {
    return told_failure(disk_->append(name, bytes));
  }
  result<void> sync(const std::string& name) override {
    return told(disk_->sync(name));
  }
  result<void> rename(const std::string& from, const std::string& to) override {
    return told_failure(disk_->rename(from, to));
  }
  result<void> sync_names() override { return told(disk_->sync_names()); }

private:
  /// Reports only failures of calls that may not have reached the disk yet.
  /// Success of such a call proves nothing; a refusal is one.
  result<void> told_failure(result<void> x) const {
    if (!x)
      tell_(x);
    return x;
  }

  result<void> told(result<void> x) const {
    tell_(x);
    return x;
  }

  std::unique_ptr<disk> disk_;
  std::function<void(const result<void>&)> tell_;
};

} // namespace

std::unique_ptr<disk>
watched(std::unique_ptr<disk> inner,
        std::function<void(const result<void>&)> how_it_went) {
  return std::make_unique<watched_disk>(std::move(inner),
                                        std::move(how_it_went));
}

} // namespace millrace
