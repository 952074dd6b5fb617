// SPDX-License-Identifier: Apache-2.0
#include "models/device/crash_journal.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/file_descriptor.hpp"
#include "runtime/system_error.hpp"

namespace millrace {

namespace {

/// The model that a thread runs. Signal handlers read and write the slot.
struct slot {
  std::atomic<uint32_t> guilty; ///< the process crashed in this thread
  char model[124];              ///< empty: none; zero-terminated
};
static_assert(sizeof(slot) == 128);

constexpr size_t slots_max = 256; ///< further threads are not recorded
constexpr std::array fatal{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

slot* slots = nullptr;
std::atomic<size_t> slots_used{0};
std::array<struct sigaction, fatal.size()> former_actions;
thread_local slot* own_slot = nullptr;

/// Marks the thread's model as guilty, or all running models if the thread runs
/// none; then calls the previous action of the signal.
void on_fatal(int signal) {
  if (own_slot != nullptr && own_slot->model[0] != 0)
    own_slot->guilty = 1;
  else
    for (size_t i = 0; i < slots_max; ++i)
      if (slots[i].model[0] != 0)
        slots[i].guilty = 1;
  for (size_t i = 0; i < fatal.size(); ++i)
    if (fatal[i] == signal)
      ::sigaction(signal, &former_actions[i], nullptr);
}

slot* slot_of_thread() {
  if (own_slot == nullptr && slots != nullptr)
    if (auto i = slots_used.fetch_add(1); i < slots_max)
      own_slot = slots + i;
  return own_slot;
}

class noted : public loaded_stage {
public:
  noted(std::unique_ptr<loaded_stage> stage, std::string model)
    : stage_(std::move(stage)),
      model_(std::move(model)) {}

  result<tensor_list> run(const tensor_list& inputs, const run_limits& limits,
                          uint64_t* peak, output_room* room) override {
    running_model now{model_};
    return stage_->run(inputs, limits, peak, room);
  }
  bool depends_on_values() const override {
    return stage_->depends_on_values();
  }
  result<void> arrive(std::optional<const_bytes> part) override {
    running_model now{model_};
    return stage_->arrive(part);
  }
  void give_up_parameters() override { stage_->give_up_parameters(); }
  byte_count memory() const override { return stage_->memory(); }

private:
  std::unique_ptr<loaded_stage> stage_;
  std::string model_;
};

} // namespace

result<std::vector<std::string>> open_crash_journal(const std::string& file) {
  constexpr auto bytes = slots_max * sizeof(slot);
  file_descriptor fd{::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!fd || ::ftruncate(fd.get(), bytes) != 0)
    return system_error(file, "write");
  auto* memory =
    ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED)
    return system_error(file, "map");
  slots = static_cast<slot*>(memory);
  std::vector<std::string> out;
  for (auto* x = slots; x != slots + slots_max; ++x)
    if (x->guilty != 0)
      out.emplace_back(x->model, ::strnlen(x->model, sizeof x->model));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  std::memset(memory, 0, bytes);
  struct sigaction mark {};
  mark.sa_handler = on_fatal;
  mark.sa_flags = SA_ONSTACK;
  for (size_t i = 0; i < fatal.size(); ++i)
    ::sigaction(fatal[i], &mark, &former_actions[i]);
  return out;
}

running_model::running_model(std::string_view name) {
  if (auto* x = slot_of_thread()) {
    auto n = std::min(name.size(), sizeof x->model - 1);
    std::memcpy(x->model, name.data(), n);
    x->model[n] = 0;
  }
}

running_model::~running_model() {
  if (own_slot != nullptr)
    own_slot->model[0] = 0;
}

std::unique_ptr<loaded_stage> noted_stage(std::unique_ptr<loaded_stage> stage,
                                          std::string model) {
  return std::make_unique<noted>(std::move(stage), std::move(model));
}

std::string name_in_journal(const manifest& info) {
  return info.name + "." + std::to_string(info.version);
}

result<void> check_crashes(const crash_counts& counts, const manifest& of) {
  auto i = counts.find(name_in_journal(of));
  if (i == counts.end() || i->second < crashes_max)
    return {};
  return error{ec::unavailable,
               "model " + of.name + " version " + std::to_string(of.version)
                 + " crashed this node " + std::to_string(i->second)
                 + " times: its code no longer runs in threads of the node",
               {}};
}

} // namespace millrace
