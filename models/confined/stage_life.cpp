// SPDX-License-Identifier: Apache-2.0
#include "models/confined/stage_life.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <latch>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <vector>

#include "models/backend/warm_up.hpp"
#include "models/confined/confinement.hpp"
#include "models/confined/lane.hpp"
#include "models/confined/parts.hpp"
#include "models/crossing.hpp"
#include "runtime/worker_thread.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace::confined {

namespace {

/// Processor time of this process, on all processors.
nanoseconds processor_time() {
  timespec x{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &x);
  return std::chrono::seconds{x.tv_sec} + nanoseconds{x.tv_nsec};
}

/// Maps `bytes` bytes of a file. The node gives the size: fstat(2) is not
/// allowed here.
result<shared_bytes> map(const file_descriptor& file, size_t bytes,
                         bool to_write) {
  if (bytes == 0)
    return shared_bytes{};
  auto* p = ::mmap(nullptr, bytes, PROT_READ | (to_write ? PROT_WRITE : 0),
                   (to_write ? MAP_PRIVATE : MAP_SHARED) | MAP_NORESERVE,
                   file.get(), 0);
  if (p == MAP_FAILED)
    return error{ec::unavailable, "the bundle cannot be mapped: "
                                    + std::string{std::strerror(errno)}};
  std::shared_ptr<const void> owner{
    p, [bytes](const void* x) { ::munmap(const_cast<void*>(x), bytes); }};
  return shared_bytes{{static_cast<const std::byte*>(p), bytes},
                      std::move(owner)};
}

/// The bundle that an order brings. The node has read and verified it.
/// `weights` gets a private mapping of the weights file: pages that this
/// process writes are copies, all others are shared with the node. (QUART's
/// forked copies of parameters, QU-40.)
result<bundle> receive_bundle(const life_order& order,
                              const std::vector<file_descriptor>& files,
                              shared_bytes& weights) {
  bundle out{{}, "the bundle", {}, {}, {}, nullptr};
  auto bytes = map(files.at(0), order.packed_bytes, false);
  if (!bytes)
    return bytes.failure();
  auto manifest = std::string{bytes->slice(0, order.manifest_bytes).text()};
  if (auto read = yaml_reader{out.directory}.read(manifest, out.info); !read)
    return read.failure();
  auto at = order.manifest_bytes;
  for (auto& layer : out.info.layers) {
    out.code.push_back(bytes->slice(at, layer.code_bytes));
    at += layer.code_bytes;
  }
  if (out.info.weights.file.empty())
    return out;
  auto mapped = map(files.at(1), order.weights_bytes, true);
  if (!mapped)
    return mapped.failure();
  weights = std::move(*mapped);
  auto tensors = read_safetensors(weights);
  if (!tensors)
    return tensors.failure();
  out.weights = std::move(*tensors);
  return out;
}

/// Takes a model's file apart; returns the serialised parts.
result<tensor_list> take_apart(backend& runner, const mapped_file& file,
                               const life_order& order) {
  std::optional<layer_split> how;
  if (order.depth > 0)
    how = {order.depth,
           order.inputs,
           {order.firsts, order.firsts + order.first_count}};
  auto parts = runner.take_apart(file, how);
  return parts ? write_parts(std::move(*parts)) : parts.failure();
}

/// One stage, from its load to its end.
class stage_life {
public:
  stage_life(process_environment& environment, const file_descriptor& life,
             const life_order& order)
    : environment_(environment),
      life_(life),
      order_(order) {}

  ~stage_life() {
    if (stage_) // ends all waits of lanes for parameters
      stage_->give_up_parameters();
  }

  /// Runs the stage. Out of memory or threads, it answers with an error.
  void live(std::vector<file_descriptor> files) {
    load_answer answer;
    try {
      load_and_serve(std::move(files), answer);
    } catch (const std::exception& x) {
      tell(
        error{ec::internal, std::string{"no room for the model: "} + x.what()},
        answer);
    }
  }

private:
  void load_and_serve(std::vector<file_descriptor> files, load_answer& answer) {
    if (!tell(load(std::move(files), answer), answer))
      return;
    begin_warm_up();
    life_order next;
    while (receive_record(life_, next) == received::record
           && next.what == life_order::part)
      take_part(next);
    if (next.what != life_order::warm_up
        || !tell(warm_up_lanes(answer), answer))
      return;
    life_order never;
    static_cast<void>(receive_record(life_, never));
  }

  /// Sends the answer. Returns whether the step succeeded and the answer was
  /// sent.
  bool tell(const result<void>& done, load_answer& answer) {
    answer.loaded = static_cast<bool>(done);
    if (!done)
      say(answer.text, done.failure().text);
    answer.gpu_is_lost =
      order_.on_gpu != 0 && !done && done.failure().code == ec::unavailable;
    return send_record(life_, answer) && done;
  }

  result<void> load(std::vector<file_descriptor> files, load_answer& answer) {
    auto others = order_.weights_bytes > 0 ? 2u : 1u;
    if (files.size() != others + order_.lanes)
      return error{ec::unavailable, "the process has too many open files"};
    auto content = receive_bundle(order_, files, weights_);
    if (!content)
      return content.failure();
    for (auto i = files.size() - order_.lanes; i < files.size(); ++i)
      ends_.push_back(std::move(files[i]));
    files.clear();
    auto begin = steady_now();
    auto busy = processor_time();
    if (auto done = environment_.prepare(order_); !done)
      return done;
    auto runner =
      torch_backend(order_.trusted == 0 ? code_trust::none : code_trust::full);
    if (!runner)
      return runner.failure();
    runner_ = std::move(*runner);
    enter_thread();
    content_ = std::make_shared<const bundle>(std::move(*content));
    if (order_.in_background != 0)
      aside_.emplace("load", thread_priority::least);
    start_threads();
    auto done = where_it_may([this] { return load_stage(); });
    answer.load_ns = nanoseconds{steady_now() - begin}.count();
    answer.cpu_ns = (processor_time() - busy).count();
    return done;
  }

  /// Runs the job; at low priority on a thread of its own, because a thread
  /// that has lowered its priority cannot raise it again.
  template <class F>
  result<void> where_it_may(F job) {
    if (!aside_)
      return job();
    std::promise<result<void>> outcome;
    aside_->post([&] {
      enter_thread();
      outcome.set_value(job());
    });
    return outcome.get_future().get();
  }

  result<void> load_stage() {
    std::optional<gpu_place> on;
    if (order_.on_gpu != 0)
      on = order_.place;
    auto found =
      runner_->load(content_, order_.first_layer, order_.last_layer, on);
    if (!found)
      return found.failure();
    stage_ = std::move(*found);
    return {};
  }

  /// Passes a part of the weights on. A failure recurs when all parts are
  /// present.
  void take_part(const life_order& x) {
    auto all = weights_.view();
    if (x.part_begin <= all.size() && x.part_bytes <= all.size() - x.part_begin)
      static_cast<void>(
        stage_->arrive(all.subspan(x.part_begin, x.part_bytes)));
  }

  result<void> warm_up_lanes(load_answer& answer) {
    auto begin = steady_now();
    auto busy = processor_time();
    auto done = stage_->arrive();
    if (aside_ && done)
      done = where_it_may([this] { return warm_up_here(); });
    aside_.reset();
    if (done)
      done = start_lanes();
    answer.gpu_bytes = stage_->memory().value;
    if (done) {
      std::lock_guard guard{warm_up_mutex_};
      say(answer.text, warm_up_error_);
    }
    answer.warm_up_ns = nanoseconds{steady_now() - begin}.count();
    answer.cpu_ns += (processor_time() - busy).count();
    return done;
  }

  /// Starts the warm-up early on one lane, if pipelined loading is on: a pass
  /// that waits for its parameters, layer by layer. One lane suffices, for
  /// passes take turns on the GPU. A failure recurs when all parts are present.
  void begin_warm_up() {
    if (order_.on_gpu == 0 || !order_.place.pipelined || order_.max_batch == 0
        || order_.in_background != 0)
      return;
    threads_.front()->post([this] {
      static_cast<void>(where_memory_ends([this]() -> result<tensor_list> {
        auto row = warm_up_inputs(content_->info, order_.first_layer, 1);
        return row ? stage_->run(*row) : row.failure();
      }));
    });
  }

  void enter_thread() {
    runner_->enter_thread(static_cast<int>(order_.threads));
  }

  /// Turns bad_alloc into an error: other stages of this process go on.
  template <class F>
  static auto where_memory_ends(F f) -> decltype(f()) {
    try {
      return f();
    } catch (const std::bad_alloc&) {
      return error{ec::overloaded, "no memory left"};
    }
  }

  result<void> warm_up_here() {
    if (order_.max_batch == 0)
      return {};
    return where_memory_ends([this] {
      return warm_up(*stage_, content_->info,
                     {order_.first_layer,
                      order_.last_layer,
                      order_.max_batch,
                      {},
                      [] { return timestamp{steady_now()}; },
                      {},
                      {},
                      {},
                      [this](const error& why) {
                        std::lock_guard guard{warm_up_mutex_};
                        warm_up_error_ = why.text;
                      }});
    });
  }

  /// Starts a thread for each lane; all or none.
  void start_threads() {
    for (size_t i = 0; i < ends_.size(); ++i) {
      threads_.push_back(
        std::make_unique<worker_thread>("lane." + std::to_string(i)));
      threads_.back()->post([this] { enter_thread(); });
    }
  }

  /// Progress of the lanes' start; may outlive start_lanes().
  struct start {
    explicit start(std::ptrdiff_t lanes) : left(lanes) {}
    std::latch left;
    std::mutex mutex;
    result<void> outcome; ///< guarded
  };

  /// Runs each lane's first calls before it serves, unless the low-priority
  /// thread did the warm-up.
  result<void> start_lanes() {
    auto all =
      std::make_shared<start>(static_cast<std::ptrdiff_t>(ends_.size()));
    for (size_t i = 0; i < ends_.size(); ++i) {
      auto& to = *threads_[i];
      auto mine = std::make_shared<lane>(
        std::move(ends_[i]), order_.on_gpu != 0 ? runner_->gpus() : nullptr,
        [this](uint32_t n) { runner_->enter_thread(static_cast<int>(n)); },
        order_.threads);
      to.post([this, all] {
        auto done = order_.in_background == 0 ? warm_up_here() : result<void>{};
        std::lock_guard guard{all->mutex};
        if (!done)
          all->outcome = std::move(done);
        all->left.count_down();
      });
      to.post([this, mine] {
        mine->serve([this](auto& inputs, uint64_t* peak, output_room* room) {
          return where_memory_ends(
            [&] { return stage_->run(inputs, {}, peak, room); });
        });
      });
    }
    all->left.wait();
    std::lock_guard guard{all->mutex};
    return all->outcome;
  }

  process_environment& environment_;
  const file_descriptor& life_;
  const life_order order_;
  std::shared_ptr<backend> runner_;   ///< loaded by the template
  std::vector<file_descriptor> ends_; ///< of the lanes
  std::shared_ptr<const bundle> content_;
  shared_bytes weights_;               ///< mapped file of the weights
  std::optional<worker_thread> aside_; ///< runs loads at low priority
  std::unique_ptr<loaded_stage> stage_;
  std::mutex warm_up_mutex_;
  std::string warm_up_error_; ///< guarded; the model's own error
  std::vector<std::unique_ptr<worker_thread>> threads_; ///< one per lane
};

/// Opens the GPU, before the process gives up file access. CUDA reads the MPS
/// share from the environment when it is opened.
result<void> open_gpu(backend& runner, const gpu_place& place) {
  if (place.sharing == gpu_sharing::mps && place.share > 0)
    ::setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
             std::to_string(place.share).c_str(), 1);
  auto gpus = gpus_of(runner);
  return gpus ? (*gpus)->open(place) : gpus.failure();
}

result<void> give_up_rights(const life_order& x) {
  auto runner = torch_backend(code_trust::none);
  if (!runner)
    return runner.failure();
  auto on_gpu = x.on_gpu != 0;
  if (on_gpu)
    if (auto done = open_gpu(**runner, x.place); !done)
      return done;
  auto shared = x.what == life_order::beside;
  if (auto done = confine({x.memory}, on_gpu, shared); !done)
    return done;
  // LibTorch makes its threads anew in a forked process, if no other thread
  // uses the pool at that time (c10::pthreadpool()).
  (*runner)->enter_thread(static_cast<int>(x.threads));
  return {};
}

} // namespace

result<void> process_environment::prepare(const life_order& order) {
  std::lock_guard guard{mutex_};
  if (!prepared_)
    prepared_ = nobody_ ? give_up_rights(order) : nobody_;
  return *prepared_;
}

void take_apart_for_node(process_environment& environment,
                         const life_order& order,
                         std::vector<file_descriptor> files) {
  lane mine{std::move(files.at(1)), nullptr};
  auto file = map_open_file(std::move(files.at(0)), "the file");
  auto able = environment.prepare(order);
  mine.serve(
    [&](const tensor_list&, uint64_t*, output_room*) -> result<tensor_list> {
      if (!file)
        return file.failure();
      if (!able)
        return able.failure();
      auto runner = torch_backend(code_trust::none);
      if (!runner)
        return runner.failure();
      (*runner)->enter_thread(static_cast<int>(order.threads));
      return take_apart(**runner, *file, order);
    });
}

void live_as_stage(process_environment& environment,
                   const file_descriptor& life, const life_order& order,
                   std::vector<file_descriptor> files) {
  stage_life{environment, life, order}.live(std::move(files));
}

} // namespace millrace::confined
