// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_cuda.hpp"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <cuda.h>

namespace millrace::test::fake_cuda {

/// An event that is reached once, for CUDA events.
class milestone {
public:
  void reach() {
    {
      std::lock_guard guard{mutex_};
      reached_ = true;
    }
    changed_.notify_all();
  }
  bool is_reached() const {
    std::lock_guard guard{mutex_};
    return reached_;
  }
  void wait() {
    std::unique_lock guard{mutex_};
    changed_.wait(guard, [&] { return reached_; });
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
};

} // namespace millrace::test::fake_cuda

using namespace millrace::test::fake_cuda;

namespace {

/// Allocated blocks of memory, by address.
class blocks {
public:
  void add(const void* at, size_t bytes) {
    all_[static_cast<const char*>(at)] = bytes;
  }
  bool remove(const void* at) {
    return all_.erase(static_cast<const char*>(at)) != 0;
  }
  bool have(const void* at, size_t bytes) const {
    auto* x = static_cast<const char*>(at);
    auto i = all_.upper_bound(x);
    return i != all_.begin() && (--i, x + bytes <= i->first + i->second);
  }
  size_t size() const { return all_.size(); }

private:
  std::map<const char*, size_t> all_;
};

/// The error of a call, and the number of calls that succeed before.
struct planned_failure {
  size_t calls_before = 0;
  cudaError_t with = cudaSuccess;
};

struct world {
  std::mutex mutex;
  inventory there;
  history done;
  blocks gpu, locked;
  std::map<std::string, planned_failure> failures;
  cudaError_t lost = cudaSuccess;
};

world& the_world() {
  static auto* out = new world;
  return *out;
}

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_gpu = 0;

cudaError_t said(cudaError_t x) {
  if (x != cudaSuccess)
    last_error = x;
  return x;
}

bool is_for_good(cudaError_t x) {
  return x == cudaErrorIllegalAddress || x == cudaErrorAssert;
}

/// Returns the planned error of this call, or cudaSuccess.
cudaError_t failure_of(const char* call) {
  auto& w = the_world();
  std::lock_guard guard{w.mutex};
  if (w.lost != cudaSuccess)
    return w.lost;
  auto i = w.failures.find(call);
  if (i == w.failures.end() || i->second.calls_before-- > 0)
    return cudaSuccess;
  auto out = i->second.with;
  w.failures.erase(i);
  if (is_for_good(out))
    w.lost = out;
  return out;
}

template <class F>
auto with_world(F f) {
  auto& w = the_world();
  std::lock_guard guard{w.mutex};
  return f(w);
}

constexpr std::align_val_t alignment{256};

cudaError_t allocate(const char* call, blocks world::*kind, void** x,
                     size_t bytes) {
  if (auto code = failure_of(call))
    return code;
  *x = ::operator new(bytes, alignment);
  with_world([&](world& w) { (w.*kind).add(*x, bytes); });
  return cudaSuccess;
}

void release(blocks world::*kind, void* x) {
  if (with_world([&](world& w) { return (w.*kind).remove(x); }))
    ::operator delete(x, alignment);
}

} // namespace

/// A stream: a thread that runs its work in order.
struct CUstream_st {
  explicit CUstream_st(std::pair<unsigned, unsigned> on) : on_(on) {
    with_world([](world& w) {
      ++w.there.streams;
      ++w.done.streams_made;
    });
  }
  ~CUstream_st() {
    give({});
    thread_.join();
    with_world([](world& w) { --w.there.streams; });
  }

  /// Queues work. An empty function ends the thread.
  void give(std::function<void()> what) {
    {
      std::lock_guard guard{mutex_};
      work_.push_back(std::move(what));
    }
    filled_.notify_one();
  }

  std::pair<unsigned, unsigned> multiprocessors() const { return on_; }

private:
  void run() {
    for (;;) {
      std::function<void()> next;
      {
        std::unique_lock guard{mutex_};
        filled_.wait(guard, [&] { return !work_.empty(); });
        next = std::move(work_.front());
        work_.pop_front();
      }
      if (!next)
        return;
      next();
    }
  }

  std::pair<unsigned, unsigned> on_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::function<void()>> work_; ///< guarded
  std::thread thread_{[this] { run(); }};
};

struct CUevent_st {
  CUevent_st() {
    with_world([](world& w) { ++w.there.events; });
  }
  ~CUevent_st() {
    with_world([](world& w) { --w.there.events; });
  }
  std::shared_ptr<milestone> recorded() const {
    std::lock_guard guard{mutex};
    return last;
  }

  mutable std::mutex mutex;
  std::shared_ptr<milestone> last; ///< guarded; null: never recorded
};

struct CUgreenCtx_st {
  std::pair<unsigned, unsigned> on;
};

namespace millrace::test::fake_cuda {

inventory what_is_there() {
  return with_world([](world& w) {
    auto out = w.there;
    out.gpu_memory = w.gpu.size();
    out.page_locked = w.locked.size();
    return out;
  });
}

history so_far() {
  return with_world([](world& w) { return w.done; });
}

void reset() {
  with_world([](world& w) {
    w.done = {};
    w.failures.clear();
    w.lost = cudaSuccess;
  });
  last_error = cudaSuccess;
}

void fail(const std::string& call, size_t nth, cudaError_t with) {
  with_world([&](world& w) { w.failures[call] = {nth - 1, with}; });
}

void launch(cudaStream_t on, std::function<void()> kernel) {
  on->give(std::move(kernel));
}

std::pair<unsigned, unsigned> multiprocessors_of(cudaStream_t x) {
  return x->multiprocessors();
}

} // namespace millrace::test::fake_cuda

// -- the runtime --------------------------------------------------------------

extern "C" {

const char* cudaGetErrorString(cudaError_t x) {
  return x == cudaErrorMemoryAllocation ? "out of memory" : "an error";
}

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaGetDevice(int* x) {
  *x = current_gpu;
  return said(failure_of("cudaGetDevice"));
}

cudaError_t cudaSetDevice(int x) {
  current_gpu = x;
  return said(failure_of("cudaSetDevice"));
}

cudaError_t cudaDeviceGetAttribute(int* x, cudaDeviceAttr, int) {
  *x = 9; // the compute capability
  return said(failure_of("cudaDeviceGetAttribute"));
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* x, int) {
  *x = {};
  x->major = 9;
  x->multiProcessorCount = all_multiprocessors;
  return said(failure_of("cudaGetDeviceProperties"));
}

/// Not supported: only the tracing of kernels calls this function, and no test
/// traces kernels.
cudaError_t cudaDeviceSynchronize() {
  return said(cudaErrorNotSupported);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* x, unsigned) {
  if (auto code = failure_of("cudaStreamCreateWithFlags"))
    return said(code);
  *x = new CUstream_st{{0, all_multiprocessors}};
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t x) {
  delete x;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t x) {
  auto end = std::make_shared<milestone>();
  x->give([end] { end->reach(); });
  end->wait();
  return said(failure_of("cudaStreamSynchronize"));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t x, cudaEvent_t event, unsigned) {
  if (auto code = failure_of("cudaStreamWaitEvent"))
    return said(code);
  if (auto what = event->recorded())
    x->give([what] { what->wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* x, unsigned) {
  if (auto code = failure_of("cudaEventCreateWithFlags"))
    return said(code);
  *x = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t x) {
  delete x;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t x, cudaStream_t on) {
  if (auto code = failure_of("cudaEventRecord"))
    return said(code);
  auto what = std::make_shared<milestone>();
  {
    std::lock_guard guard{x->mutex};
    x->last = what;
  }
  on->give([what] { what->reach(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t x) {
  if (auto code = failure_of("cudaEventQuery"))
    return said(code);
  auto what = x->recorded();
  return said(!what || what->is_reached() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t x) {
  if (auto what = x->recorded())
    what->wait();
  return said(failure_of("cudaEventSynchronize"));
}

cudaError_t cudaMalloc(void** x, size_t bytes) {
  return said(allocate("cudaMalloc", &world::gpu, x, bytes));
}

/// A null pointer only opens the GPU.
cudaError_t cudaFree(void* x) {
  release(&world::gpu, x);
  return said(failure_of("cudaFree"));
}

cudaError_t cudaHostAlloc(void** x, size_t bytes, unsigned) {
  auto code = allocate("cudaHostAlloc", &world::locked, x, bytes);
  if (code == cudaSuccess)
    with_world([](world& w) { ++w.done.locked; });
  return said(code);
}

cudaError_t cudaFreeHost(void* x) {
  release(&world::locked, x);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind, cudaStream_t on) {
  if (auto code = failure_of("cudaMemcpyAsync"))
    return said(code);
  with_world([&](world& w) {
    auto is_fast = [&](const void* x) {
      return bytes == 0 || w.gpu.have(x, bytes) || w.locked.have(x, bytes);
    };
    w.done.slow_copies += !is_fast(to) || !is_fast(from);
  });
  on->give([=] {
    std::memcpy(to, from, bytes);
    with_world([](world& w) { ++w.done.copies; });
  });
  return cudaSuccess;
}

// -- the driver's partitions --------------------------------------------------

namespace {

/// The fake stores the index of the first multiprocessor in the padding.
unsigned& begin_of(CUdevResource& x) {
  return *reinterpret_cast<unsigned*>(x._internal_padding);
}

CUresult resources(CUdevice, CUdevResource* x, CUdevResourceType) {
  *x = {};
  x->type = CU_DEV_RESOURCE_TYPE_SM;
  x->sm.smCount = all_multiprocessors;
  return CUDA_SUCCESS;
}

CUresult split(CUdevResource* taken, unsigned* groups, const CUdevResource* of,
               CUdevResource* rest, unsigned, unsigned least) {
  *groups = 1;
  *taken = *rest = *of;
  taken->sm.smCount = least;
  rest->sm.smCount = of->sm.smCount - least;
  begin_of(*rest) += least;
  return CUDA_SUCCESS;
}

CUresult describe(CUdevResourceDesc* x, CUdevResource* of, unsigned) {
  *x = reinterpret_cast<CUdevResourceDesc>(of);
  return CUDA_SUCCESS;
}

CUresult create(CUgreenCtx* x, CUdevResourceDesc of, CUdevice, unsigned) {
  auto& what = *reinterpret_cast<CUdevResource*>(of);
  *x = new CUgreenCtx_st{{begin_of(what), what.sm.smCount}};
  with_world([](world& w) { ++w.there.partitions; });
  return CUDA_SUCCESS;
}

CUresult destroy(CUgreenCtx x) {
  delete x;
  with_world([](world& w) { --w.there.partitions; });
  return CUDA_SUCCESS;
}

CUresult make_stream(CUstream* x, CUgreenCtx of, unsigned, int) {
  if (failure_of("cuGreenCtxStreamCreate") != cudaSuccess)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *x = new CUstream_st{of->on};
  return CUDA_SUCCESS;
}

} // namespace

cudaError_t
cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned,
                                 unsigned long long,
                                 cudaDriverEntryPointQueryResult* found) {
  const std::map<std::string, void*> all{
    {"cuDeviceGetDevResource", reinterpret_cast<void*>(&resources)},
    {"cuDevSmResourceSplitByCount", reinterpret_cast<void*>(&split)},
    {"cuDevResourceGenerateDesc", reinterpret_cast<void*>(&describe)},
    {"cuGreenCtxCreate", reinterpret_cast<void*>(&create)},
    {"cuGreenCtxDestroy", reinterpret_cast<void*>(&destroy)},
    {"cuGreenCtxStreamCreate", reinterpret_cast<void*>(&make_stream)}};
  *out = all.at(name);
  *found = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

} // extern "C"
