// SPDX-License-Identifier: Apache-2.0
#include "models/confined/inside.hpp"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <future>
#include <latch>
#include <mutex>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "models/confined/confinement.hpp"
#include "models/confined/lane.hpp"
#include "models/confined/orders.hpp"
#include "models/confined/parts.hpp"
#include "models/confined/sanitized.hpp"
#include "models/device/warm_up.hpp"
#include "runtime/records.hpp"
#include "runtime/worker_thread.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace::confined {

namespace {

/// That this process has had, of all processors.
nanoseconds processor_time() {
  timespec x{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &x);
  return std::chrono::seconds{x.tv_sec} + nanoseconds{x.tv_nsec};
}

/// Weights as this process alone has them: what it writes there nobody else
/// sees, and a page that it does not write is the node's. (QUART's forked
/// copies of parameters, QU-40.)
result<shared_bytes> map_privately(const file_descriptor& file,
                                   const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return error{ec::unavailable, path + ": is not a regular file", {}};
  auto n = static_cast<size_t>(info.st_size);
  if (n == 0)
    return shared_bytes{};
  auto* p = ::mmap(nullptr, n, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (p == MAP_FAILED)
    return error{ec::unavailable, path + ": cannot be mapped", {}};
  std::shared_ptr<const void> owner{
    p, [n](const void* x) { ::munmap(const_cast<void*>(x), n); }};
  return shared_bytes{{static_cast<const std::byte*>(p), n}, std::move(owner)};
}

/// The bundle that an order brings, as if it had been opened here. The node has
/// read and verified all of it but the outputs, which a trial run is to learn.
/// `weights` gets the file of these.
result<bundle> receive_bundle(const life_order& order,
                              std::vector<file_descriptor>& files,
                              shared_bytes& weights) {
  bundle out{{}, "the bundle", {}, {}, {}, nullptr};
  auto parts = map_open_file(std::move(files.at(0)), out.directory);
  if (!parts)
    return parts.failure();
  auto& bytes = parts->content;
  auto manifest = std::string{bytes.slice(0, order.manifest_bytes).text()};
  if (auto read = yaml_reader{out.directory}.read(manifest, out.info); !read)
    return read.failure();
  auto at = order.manifest_bytes;
  for (auto& layer : out.info.layers) {
    out.code.push_back(bytes.slice(at, layer.code_bytes));
    at += layer.code_bytes;
  }
  if (out.info.weights.file.empty())
    return out;
  auto mapped = map_privately(files.at(1), "the weights");
  if (!mapped)
    return mapped.failure();
  weights = std::move(*mapped);
  auto tensors = read_safetensors(weights);
  if (!tensors)
    return tensors.failure();
  out.weights = std::move(*tensors);
  return out;
}

/// A model's file as what it is taken apart into.
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

/// A process that runs one stage and nothing else, from its birth to its end.
class confined_process {
public:
  /// `nobody` tells whether it is nobody's: else it runs nothing.
  confined_process(file_descriptor life, result<void> nobody)
    : life_(std::move(life)),
      nobody_(std::move(nobody)) {}

  void live() {
    std::vector<file_descriptor> files;
    if (receive_record(life_, order_, far_future, &files) != received::record)
      return;
    if (order_.what == life_order::take_apart)
      return take_apart_for_node(files);
    load_answer answer;
    if (!tell(load(files, answer), answer))
      return;
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

private:
  /// Whether that went well, and the node has heard.
  bool tell(const result<void>& done, load_answer& answer) {
    answer.loaded = static_cast<bool>(done);
    if (!done)
      say(answer.text, done.failure().text);
    return send_record(life_, answer) && done;
  }

  void take_apart_for_node(std::vector<file_descriptor>& files) {
    lane mine{std::move(files.at(1)), nullptr};
    auto file = map_open_file(std::move(files.at(0)), "the file");
    auto able = nobody_ ? confine({order_.memory}) : nobody_;
    mine.serve(
      [&](const tensor_list&, uint64_t*, output_room*) -> result<tensor_list> {
        if (!file)
          return file.failure();
        if (!able)
          return able.failure();
        auto runner = torch_backend(code_trust::none);
        if (!runner)
          return runner.failure();
        (*runner)->enter_thread(static_cast<int>(order_.threads));
        return take_apart(**runner, *file, order_);
      });
  }

  result<void> load(std::vector<file_descriptor>& files, load_answer& answer) {
    if (!nobody_)
      return nobody_;
    auto content = receive_bundle(order_, files, weights_);
    if (!content)
      return content.failure();
    for (auto i = files.size() - order_.lanes; i < files.size(); ++i)
      ends_.push_back(std::move(files[i]));
    files.clear();
    auto begin = steady_now();
    auto busy = processor_time();
    auto runner =
      torch_backend(order_.trusted == 0 ? code_trust::none : code_trust::full);
    if (!runner)
      return runner.failure();
    runner_ = std::move(*runner);
    if (auto done = open_gpu(); !done)
      return done;
    if (auto done = confine({order_.memory}, order_.on_gpu != 0); !done)
      return done;
    runner_->enter_thread(static_cast<int>(order_.threads));
    content_ = std::make_shared<const bundle>(std::move(*content));
    if (order_.in_background != 0)
      aside_.emplace("load", thread_priority::least);
    auto done = where_it_may([this] { return load_stage(); });
    answer.load_ns = nanoseconds{steady_now() - begin}.count();
    answer.cpu_ns = (processor_time() - busy).count();
    return done;
  }

  /// Which takes files, and of its share CUDA reads before it is opened.
  result<void> open_gpu() {
    if (order_.on_gpu == 0)
      return {};
    auto& place = order_.place;
    if (place.sharing == gpu_sharing::mps && place.share > 0)
      ::setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
               std::to_string(place.share).c_str(), 1);
    auto gpus = gpus_of(*runner_);
    return gpus ? (*gpus)->open(place) : gpus.failure();
  }

  /// In the background that is when nobody else wants the processor: on a
  /// thread, for one that has given its turn away does not get it back.
  template <class F>
  result<void> where_it_may(F job) {
    if (!aside_)
      return job();
    std::promise<result<void>> outcome;
    aside_->post([&] {
      runner_->enter_thread(static_cast<int>(order_.threads));
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

  /// What fails of it fails again when all is there.
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
    answer.warm_up_ns = nanoseconds{steady_now() - begin}.count();
    answer.cpu_ns += (processor_time() - busy).count();
    return done;
  }

  result<void> warm_up_here() {
    if (order_.max_batch == 0)
      return {};
    return warm_up(*stage_, content_->info,
                   {order_.first_layer,
                    order_.last_layer,
                    order_.max_batch,
                    {},
                    [] { return timestamp{steady_now()}; },
                    {}});
  }

  /// Each lane pays its own first calls before it serves, unless that was done
  /// aside.
  result<void> start_lanes() {
    std::latch warm{static_cast<std::ptrdiff_t>(ends_.size())};
    std::mutex mutex;
    result<void> outcome;
    for (size_t i = 0; i < ends_.size(); ++i) {
      auto name = "lane." + std::to_string(i);
      auto& to = *threads_.emplace_back(std::make_unique<worker_thread>(name));
      auto mine = std::make_shared<lane>(
        std::move(ends_[i]), order_.on_gpu != 0 ? runner_->gpus() : nullptr);
      to.post([&, mine] {
        runner_->enter_thread(static_cast<int>(order_.threads));
        auto done = order_.in_background == 0 ? warm_up_here() : result<void>{};
        std::lock_guard guard{mutex};
        if (!done)
          outcome = std::move(done);
        warm.count_down();
      });
      to.post([this, mine] {
        mine->serve([this](auto& inputs, uint64_t* peak, output_room* room) {
          return stage_->run(inputs, {}, peak, room);
        });
      });
    }
    warm.wait();
    std::lock_guard guard{mutex};
    return outcome;
  }

  file_descriptor life_;
  std::shared_ptr<backend> runner_; ///< the template has loaded it
  result<void> nobody_;
  life_order order_;
  std::vector<file_descriptor> ends_; ///< of the lanes
  std::shared_ptr<const bundle> content_;
  shared_bytes weights_;               ///< the file
  std::optional<worker_thread> aside_; ///< what is loaded in the background
  std::unique_ptr<loaded_stage> stage_;
  std::vector<std::unique_ptr<worker_thread>> threads_; ///< a lane's each
};

/// Whatever happens to its template or node, this process goes with them.
bool end_with(pid_t parent) {
  return ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent;
}

/// When memory runs out, this process goes before its node.
void offer_itself() {
  if (auto* file = std::fopen("/proc/self/oom_score_adj", "we")) {
    std::fputs("500", file);
    std::fclose(file);
  }
}

/// Nothing stays open but the life line. What a model prints is for nobody;
/// what a sanitizer says is.
void close_all_but(file_descriptor& life) {
  constexpr int kept = 3;
  file_descriptor nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  for (auto fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fd != STDERR_FILENO || !sanitized)
      ::dup2(nothing.get(), fd);
  if (life.get() != kept) {
    ::dup3(life.get(), kept, O_CLOEXEC);
    life = file_descriptor{kept};
  }
  ::close_range(kept + 1, ~0u, 0);
}

[[noreturn]] void be_confined(file_descriptor life, pid_t parent) {
  offer_itself();
  close_all_but(life);
  // Whose user it is comes first: a change of it cuts the tie to the parent.
  auto nobody = become_nobody();
  if (end_with(parent))
    confined_process{std::move(life), std::move(nobody)}.live();
  ::_exit(0); // the lanes' threads go with it, whatever they do
}

/// Those that a template was told to forget, and that have not ended yet.
class ending_children {
public:
  /// Fills in the answer if it has ended.
  void forget(pid_t process, template_answer& answer) {
    std::erase_if(ids_,
                  [](auto id) { return ::waitpid(id, nullptr, WNOHANG) != 0; });
    auto found = ::waitpid(process, &answer.status, WNOHANG);
    if (found == process)
      answer.process = process;
    else if (found == 0)
      ids_.push_back(process);
  }

private:
  std::vector<pid_t> ids_;
};

} // namespace

int be_template(file_descriptor node, bool with_gpus) {
  // Nothing else of the node's, should it have forgotten to say so.
  ::close_range(static_cast<unsigned>(node.get()) + 1, ~0u, 0);
  // What asks the node to leave is the node's to follow, after it has drained.
  for (auto x : {SIGINT, SIGTERM, SIGHUP})
    std::signal(x, SIG_IGN);
  greeting hello;
  auto runner = torch_backend(code_trust::none);
  result<void> able = runner ? result<void>{} : runner.failure();
  if (able && with_gpus)
    if (auto gpus = gpus_of(**runner); !gpus)
      able = gpus.failure();
  hello.able = static_cast<bool>(able);
  say(hello.text, able ? (*runner)->describe() : able.failure().text);
  if (runner) // it reads what processor this is, which later nobody may
    (*runner)->enter_thread(1);
  if (runner && (*runner)->gpus() != nullptr && with_gpus)
    static_cast<void>((*runner)->gpus()->prepare()); // or each process does
  if (!send_record(node, hello) || !hello.able)
    return 1;
  auto self = ::getpid();
  template_order order;
  ending_children ending;
  for (;;) {
    std::vector<file_descriptor> files;
    if (receive_record(node, order, far_future, &files) != received::record)
      return 0;
    template_answer answer;
    if (order.what == template_order::fork && files.size() == 1) {
      answer.process = ::fork();
      if (answer.process == 0)
        be_confined(std::move(files.front()), self);
    } else if (order.process > 0) {
      ending.forget(order.process, answer);
    }
    if (!send_record(node, answer))
      return 0;
  }
}

} // namespace millrace::confined
