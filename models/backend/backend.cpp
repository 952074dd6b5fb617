// SPDX-License-Identifier: Apache-2.0
#include "models/backend/backend.hpp"

#include <cstdlib>
#include <deque>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <span>

#include "models/backend/abi.h"
#include "models/crossing.hpp"
#include "runtime/program_folder.hpp"

namespace millrace {

namespace {

millrace_tensor lend(const tensor& x) {
  millrace_tensor out{};
  out.dtype = static_cast<int32_t>(x.type);
  out.rank = static_cast<int32_t>(x.extents.rank());
  std::copy(x.extents.begin(), x.extents.end(), out.extents);
  out.data = x.data.data();
  out.bytes = x.data.size();
  return out;
}

/// The bytes `x` as a slice of `all`; nothing if they lie elsewhere.
std::optional<shared_bytes> part_of(const shared_bytes& all, const_bytes x) {
  auto offset = static_cast<size_t>(x.data() - all.data());
  if (x.data() < all.data() || offset >= all.size()
      || x.size() > all.size() - offset)
    return std::nullopt;
  return all.slice(offset, x.size());
}

/// Wraps a backend's tensor; its last user releases the bytes to the backend.
/// The bytes may be those of an input or a parameter (a model that returns a
/// view), so these stay alive as well.
tensor adopt(const millrace_tensor& x, const tensor_list& inputs,
             const output_room* room,
             const std::shared_ptr<const bundle>& content) {
  auto extents = shape::of({x.extents, static_cast<size_t>(x.rank)});
  auto owner = std::shared_ptr<const void>(x.data, [x, content](const void*) {
    if (x.release != nullptr)
      x.release(x.owner);
  });
  const_bytes bytes{static_cast<const std::byte*>(x.data), x.bytes};
  auto shared = room != nullptr ? part_of(room->memory, bytes) : std::nullopt;
  for (auto i = inputs.begin(); !shared && i != inputs.end(); ++i)
    shared = part_of(i->data, bytes);
  return {static_cast<dtype>(x.dtype), *extents,
          shared ? std::move(*shared) : shared_bytes{bytes, std::move(owner)}};
}

error error_of(const millrace_error& x) {
  auto code = x.kind == millrace_no_memory     ? ec::overloaded
              : x.kind == millrace_gpu_is_lost ? ec::unavailable
                                               : ec::internal;
  return {code, x.text};
}

class plugin_stage : public loaded_stage {
public:
  plugin_stage(const millrace_backend* api, millrace_stage* stage,
               std::shared_ptr<const bundle> content, size_t inputs,
               bool on_gpu)
    : api_(api),
      stage_(stage),
      content_(std::move(content)),
      inputs_(inputs),
      on_gpu_(on_gpu) {}

  ~plugin_stage() override { api_->unload(stage_); }

  result<void> arrive(std::optional<const_bytes> part) override {
    millrace_error failed{};
    auto bytes = part.value_or(const_bytes{});
    if (on_gpu_ && (!part || !bytes.empty())
        && api_->gpu->arrive(stage_, bytes.data(), bytes.size(), &failed) != 0)
      return error_of(failed);
    return {};
  }

  void give_up_parameters() override {
    if (on_gpu_)
      api_->gpu->give_up(stage_);
  }

  byte_count memory() const override {
    return {on_gpu_ ? api_->gpu->memory(stage_) : 0};
  }

  result<tensor_list> run(const tensor_list& inputs, const run_limits&,
                          uint64_t* peak, output_room* room) override {
    constexpr auto max_tensors = static_cast<uint32_t>(most_tensors);
    if (inputs.size() > max_tensors)
      return error{ec::too_large,
                   "more than " + std::to_string(max_tensors) + " inputs"};
    if (inputs.size() != inputs_)
      return error{ec::bad_request, "it takes " + std::to_string(inputs_)
                                      + " tensors, and got "
                                      + std::to_string(inputs.size())};
    millrace_tensor in[max_tensors];
    millrace_tensor out[max_tensors];
    for (size_t i = 0; i < inputs.size(); ++i)
      in[i] = lend(inputs[i]);
    millrace_room lent{};
    if (room != nullptr)
      lent = {const_cast<std::byte*>(room->memory.data()), room->memory.size(),
              0, 0};
    uint32_t n = 0;
    millrace_error failed{};
    auto status = api_->run(stage_, in, static_cast<uint32_t>(inputs.size()),
                            room != nullptr ? &lent : nullptr, out, max_tensors,
                            &n, peak, &failed);
    if (room != nullptr) {
      room->used = lent.used;
      room->kept = lent.kept != 0;
    }
    if (status != 0)
      return error_of(failed);
    tensor_list outputs;
    outputs.reserve(n);
    for (uint32_t i = 0; i < n; ++i)
      outputs.push_back(adopt(out[i], inputs, room, content_));
    return outputs;
  }

  bool depends_on_values() const override {
    return api_->depends_on_values(stage_) != 0;
  }

private:
  const millrace_backend* api_;
  millrace_stage* stage_;
  std::shared_ptr<const bundle> content_; // its mapping holds the parameters
  size_t inputs_;
  bool on_gpu_;
};

/// Stores the parts that a plugin passes on.
struct parts_sink {
  model_parts parts;

  static std::vector<std::string> texts(millrace_names xs) {
    return {xs.names, xs.names + xs.count};
  }
  static model_parts::layer& last(void* self) {
    return static_cast<parts_sink*>(self)->parts.layers.back();
  }
  static void on_layer(void* self, const char* name, millrace_names takes,
                       millrace_names gives) {
    static_cast<parts_sink*>(self)->parts.layers.push_back(
      {name, texts(takes), texts(gives), {}, {}});
  }
  static void on_code(void* self, const void* data, uint64_t bytes) {
    last(self).code.assign(static_cast<const char*>(data), bytes);
  }
  static void on_parameter(void* self, const millrace_parameter* x) {
    auto view =
      tensor{static_cast<dtype>(x->value.dtype),
             *shape::of({x->value.extents, static_cast<size_t>(x->value.rank)}),
             shared_bytes::copy_of(const_bytes{
               static_cast<const std::byte*>(x->value.data), x->value.bytes})};
    last(self).parameters.push_back({x->name, std::move(view)});
  }
  static void on_input(void* self, const char* name, const char* type) {
    static_cast<parts_sink*>(self)->parts.inputs.push_back({name, type});
  }
  static void on_finding(void* self, int32_t kind, const char* text) {
    auto& parts = static_cast<parts_sink*>(self)->parts;
    auto& to = kind == millrace_keeps_state   ? parts.keeps_state
               : kind == millrace_output_name ? parts.outputs
                                              : parts.couples_rows;
    auto most =
      &to == &parts.outputs ? most_tensors : model_parts::most_findings;
    if (to.size() < most)
      to.emplace_back(text);
  }
};

/// Numbers of the values that pass between layers, for a backend.
class value_numbers {
public:
  /// The stage's inputs have the first numbers.
  explicit value_numbers(const std::vector<std::string>& given) { of(given); }

  std::vector<uint32_t> of(const std::vector<std::string>& names) {
    std::vector<uint32_t> out;
    for (auto& x : names)
      out.push_back(
        numbers_.try_emplace(x, static_cast<uint32_t>(numbers_.size()))
          .first->second);
    return out;
  }

private:
  std::map<std::string, uint32_t> numbers_;
};

/// A plugin's calls for GPUs.
class plugin_gpus : public gpu_access {
public:
  explicit plugin_gpus(const millrace_gpu_calls* api) : api_(api) {}

  result<std::vector<gpu_info>> list() override {
    constexpr uint32_t most = 64;
    std::vector<millrace_gpu> found(most);
    uint32_t n = 0;
    if (auto done = call(api_->list, found.data(), most, &n); !done)
      return done.failure();
    std::vector<gpu_info> out;
    for (auto& x : std::span{found}.first(n)) {
      auto count = [](int32_t y) { return static_cast<uint32_t>(y); };
      out.push_back({x.name,
                     x.major,
                     x.minor,
                     count(x.multiprocessors),
                     count(x.threads),
                     count(x.blocks),
                     count(x.registers),
                     {x.shared_memory},
                     {x.memory},
                     {x.free}});
    }
    return out;
  }

  result<void> prepare() override { return call(api_->prepare); }

  result<void> open(const gpu_place& where) override {
    auto place = lend(where);
    if (where.sharing == gpu_sharing::partitions && where.share == 0) {
      place.sharing = millrace_partitioned; // later replicas may be partitioned
      place.share = 100;
    }
    return call(api_->open, &place);
  }

  result<void> pin(const void* begin, size_t bytes) override {
    millrace_error failed{};
    if (api_->pin(const_cast<void*>(begin), bytes, &failed) == 0)
      return {};
    return error_of(failed);
  }

  void unpin(const void* begin) override {
    api_->unpin(const_cast<void*>(begin));
  }

  result<void> begin_trace() override {
    return call(api_->trace, nullptr, nullptr);
  }

  result<std::vector<kernel_run>> end_trace() override {
    std::vector<kernel_run> out;
    auto note = [](void* self, const millrace_kernel* x) {
      auto seconds = [](uint64_t ns) { return static_cast<double>(ns) / 1e9; };
      static_cast<std::vector<kernel_run>*>(self)->push_back(
        {x->name,
         seconds(x->start_ns),
         seconds(x->end_ns),
         {x->grid[0], x->grid[1], x->grid[2]},
         {x->block[0], x->block[1], x->block[2]},
         x->registers,
         {x->static_shared + x->dynamic_shared},
         x->resident});
    };
    if (auto done = call(api_->trace, &out, +note); !done)
      return done.failure();
    return out;
  }

  static millrace_place lend(const gpu_place& x) {
    auto sharing = x.sharing == gpu_sharing::streams ? millrace_beside
                   : x.sharing == gpu_sharing::partitions && x.share > 0
                     ? millrace_partitioned
                   : x.sharing == gpu_sharing::partitions ? millrace_beside
                                                          : millrace_in_turn;
    return {x.gpu,
            sharing,
            x.share,
            x.streaming,
            x.graphs,
            x.parameters == gpu_parameters::host,
            x.sharing == gpu_sharing::mps};
  }

private:
  template <class F, class... Ts>
  static result<void> call(F f, Ts... xs) {
    millrace_error failed{};
    if (f(xs..., &failed) == 0)
      return {};
    return error{ec::unavailable, failed.text};
  }

  const millrace_gpu_calls* api_;
};

class plugin_backend : public backend {
public:
  plugin_backend(const millrace_backend* api, code_trust trust)
    : api_(api),
      trusted_(trust == code_trust::full) {
    if (api->gpu != nullptr)
      gpus_.emplace(api->gpu);
  }

  std::string describe() const override { return api_->describe(); }

  void enter_thread(int threads) override { api_->enter_thread(threads); }

  result<std::unique_ptr<loaded_stage>>
  load(const std::shared_ptr<const bundle>& opened, size_t first, size_t last,
       const std::optional<gpu_place>& on) override {
    if (on)
      if (auto able = gpus_of(*this); !able)
        return able.failure();
    auto count = opened->info.layers.size();
    auto taken = crossing(opened->info, first);
    value_numbers numbers{taken};
    std::vector<std::vector<millrace_parameter>> parameters;
    std::deque<std::vector<named_tensor>> weights; // keeps the names alive
    std::deque<std::vector<uint32_t>> values; // a deque: elements do not move
    std::vector<millrace_layer> layers;
    for (size_t i = first; i < last; ++i) {
      auto& list = parameters.emplace_back();
      // In the weights file the layer's name precedes the parameter's:
      // "LAYER/".
      auto prefix = opened->info.layers[i].name.size() + 1;
      for (auto& w : weights.emplace_back(weights_of(*opened, i, i + 1))) {
        if (w.name.size() <= prefix)
          return error{ec::bad_config, opened->directory + ": parameter '"
                                         + w.name
                                         + "' is not named LAYER/NAME"};
        list.push_back({w.name.c_str() + prefix, lend(w.value)});
      }
      static constexpr uint32_t none = 0;
      auto& info = opened->info.layers[i];
      auto& takes = values.emplace_back(numbers.of(info.takes));
      auto& gives = values.emplace_back(numbers.of(value_names(info.gives)));
      layers.push_back({info.name.c_str(), opened->code[i].data(),
                        opened->code[i].size(), list.data(), list.size(),
                        count == 1      ? nullptr // all values
                        : takes.empty() ? &none
                                        : takes.data(),
                        takes.size(), gives.data(), gives.size()});
    }
    std::vector<uint32_t> given;
    if (last < count)
      given = numbers.of(crossing(opened->info, last));
    millrace_stage* stage = nullptr;
    millrace_error failed{};
    auto place = plugin_gpus::lend(on.value_or(gpu_place{}));
    if (api_->load(layers.data(), layers.size(), given.data(), given.size(),
                   trusted_, on ? &place : nullptr, &stage, &failed)
        != 0)
      return opened->directory.empty()
               ? error_of(failed)
               : error_of(failed).within(opened->directory);
    return std::unique_ptr<loaded_stage>{std::make_unique<plugin_stage>(
      api_, stage, opened, taken.size(), on.has_value())};
  }

  gpu_access* gpus() override { return gpus_ ? &*gpus_ : nullptr; }

  result<model_parts>
  take_apart(const mapped_file& mapping,
             const std::optional<layer_split>& how) override {
    parts_sink sink;
    millrace_import_sink calls{&sink,
                               &parts_sink::on_input,
                               &parts_sink::on_layer,
                               &parts_sink::on_code,
                               &parts_sink::on_parameter,
                               &parts_sink::on_finding};
    millrace_split split{};
    if (how)
      split = {how->depth, how->inputs, how->firsts.data(), how->firsts.size()};
    millrace_error failed{};
    auto& file = mapping.content;
    if (api_->take_apart(file.data(), file.size(), trusted_,
                         how ? &split : nullptr, &calls, &failed)
        != 0)
      return error{ec::bad_request, failed.text};
    return std::move(sink.parts);
  }

private:
  const millrace_backend* api_;
  bool trusted_;
  std::optional<plugin_gpus> gpus_;
};

std::string plugin_path() {
  if (auto* chosen = std::getenv("MILLRACE_BACKEND"))
    return chosen;
  return program_folder() + "/libmillrace_torch.so";
}

result<const millrace_backend*> load_plugin(const std::string& path) {
  // OpenBLAS reads these variables when it is loaded; its idle threads would
  // spin on cores that replicas need.
  ::setenv("OPENBLAS_NUM_THREADS", "1", 0);
  ::setenv("OMP_NUM_THREADS", "1", 0);
  // In bus order, as the driver's tools number GPUs, not by speed.
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
  auto refuse = [&](const std::string& why) {
    return error{ec::unavailable, "backend " + path + ": " + why};
  };
  auto* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return refuse(::dlerror());
  auto entry = reinterpret_cast<millrace_backend_entry>(
    ::dlsym(library, "millrace_backend_v1"));
  if (entry == nullptr)
    return refuse("has no millrace_backend_v1");
  auto* api = entry();
  if (api->abi != MILLRACE_BACKEND_ABI)
    return refuse("speaks interface " + std::to_string(api->abi) + ", expected "
                  + std::to_string(MILLRACE_BACKEND_ABI));
  return api;
}

} // namespace

result<gpu_access*> gpus_of(backend& runner) {
  if (auto* out = runner.gpus())
    return out;
  return error{ec::unavailable,
               runner.describe()
                 + " cannot use a GPU; expected a LibTorch built with CUDA",
               {}};
}

result<std::shared_ptr<backend>> torch_backend(code_trust trust) {
  static std::mutex mutex;
  static const millrace_backend* loaded;
  std::lock_guard guard{mutex};
  if (loaded == nullptr) {
    auto x = load_plugin(plugin_path());
    if (!x)
      return x.failure();
    loaded = *x;
  }
  return std::shared_ptr<backend>{
    std::make_shared<plugin_backend>(loaded, trust)};
}

} // namespace millrace
