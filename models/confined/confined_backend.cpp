// SPDX-License-Identifier: Apache-2.0
#include "models/confined/confined_backend.hpp"

#include <array>
#include <future>
#include <optional>

#include "models/confined/arena.hpp"
#include "models/confined/confined_stage.hpp"
#include "models/confined/parts.hpp"
#include "runtime/sizes.hpp"

namespace millrace::confined {

namespace {

/// To take a file apart needs its bytes four times: in the module, possibly in
/// tensors made dense, and twice in the written parts.
constexpr uint64_t copies = 4;

error lost(const std::string& how) {
  return {ec::unavailable, "the process that took it apart " + how};
}

class confined_backend : public backend {
public:
  explicit confined_backend(backend_settings x) : settings_(x) {}

  result<void> start() { return template_.start(); }

  std::string describe() const override {
    return template_.backend() + ", confined";
  }

  /// No effect: runs are on threads of the processes.
  void enter_thread(int) override {}

  result<std::unique_ptr<loaded_stage>>
  load(const std::shared_ptr<const bundle>& opened, size_t first, size_t last,
       const std::optional<gpu_place>& on) override {
    stage_settings settings;
    settings.content = opened;
    settings.first_layer = first;
    settings.last_layer = last;
    settings.max_batch = 0;
    settings.gpu = on;
    settings.memory = settings_.memory;
    settings.load_limit = settings_.limit;
    settings.run_limit = settings_.limit;
    std::promise<result<load_times>> loaded;
    auto stage = make_confined_stage(
      processes_, std::move(settings),
      {[&](auto times) { loaded.set_value(std::move(times)); }, [](error) {}});
    if (auto times = loaded.get_future().get(); !times)
      return times.failure();
    return std::unique_ptr<loaded_stage>{std::move(stage)};
  }

  result<model_parts>
  take_apart(const mapped_file& mapping,
             const std::optional<layer_split>& how) override {
    auto parts_memory = product(copies, mapping.content.size());
    if (!parts_memory)
      return error{ec::too_large, "the file is too large to be taken apart"};
    auto lane = make_connection();
    if (!lane)
      return lane.failure();
    auto process = template_.fork();
    if (!process)
      return process.failure();
    life_order order;
    order.what = life_order::take_apart;
    if (how) {
      if (how->firsts.size() > most_firsts)
        return error{ec::too_large, "more than 1024 layers"};
      order.depth = how->depth;
      order.inputs = how->inputs;
      order.first_count = static_cast<uint32_t>(how->firsts.size());
      std::copy(how->firsts.begin(), how->firsts.end(), order.firsts);
    }
    order.memory = settings_.memory.value + *parts_memory;
    std::array files{mapping.file.get(), lane->second.get()};
    send_record(process->life_line, order, files);
    lane->second = file_descriptor{};
    arena memory;
    auto count = fetch_parts(lane->first, order.memory, memory);
    auto status = template_.end(*process);
    if (!count)
      return count.failure();
    if (!*count)
      return lost("ended with " + end_text(status));
    if (!status) // it may still write into the memory
      return lost("did not end");
    auto parts = memory.view(**count);
    return parts ? read_parts(*parts) : parts.failure();
  }

private:
  /// The number of tensors in `memory`; nothing if the process has ended.
  result<std::optional<size_t>> fetch_parts(const file_descriptor& lane,
                                            uint64_t most, arena& memory) {
    auto until = steady_now() + settings_.limit;
    lane_answer answer;
    auto ask = [&](const lane_order& order, std::span<const int> files) {
      return send_record(lane, order, files)
               ? receive_record(lane, answer, until)
               : received::ended;
    };
    auto came = ask({}, {});
    if (came == received::record && answer.what == lane_answer::needs_room) {
      if (answer.room > most)
        return error{ec::too_large,
                     "its parts need " + format_bytes(answer.room)
                       + " (expected at most " + format_bytes(most) + ")"};
      auto made = arena::make(answer.room);
      if (!made)
        return made.failure();
      memory = std::move(*made);
      std::array files{memory.file().get()};
      came = ask({lane_order::fetch, 0, 0, 0, memory.size()}, files);
    }
    if (came == received::nothing)
      return lost("was ended after " + format_duration(to_us(settings_.limit)));
    if (came == received::ended)
      return std::optional<size_t>{};
    if (answer.what != lane_answer::done)
      return error{ec::bad_request, text_of(answer.text)};
    return std::optional<size_t>{answer.tensors};
  }

  backend_settings settings_;
  template_process template_;
  process_source processes_{template_, false};
};

} // namespace

result<std::shared_ptr<backend>>
make_confined_backend(backend_settings settings) {
  auto out = std::make_shared<confined_backend>(settings);
  if (auto done = out->start(); !done)
    return done.failure();
  return std::shared_ptr<backend>{std::move(out)};
}

} // namespace millrace::confined
