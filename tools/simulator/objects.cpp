// SPDX-License-Identifier: Apache-2.0
#include "simulator/objects.hpp"

#include <algorithm>
#include <vector>

namespace millrace::simulator {

namespace {

/// About the bytes of a request, and of a response besides its content.
constexpr size_t envelope_bytes = 500;

class simulated_objects : public object_store {
public:
  simulated_objects(objects_environment environment, size_t parallel)
    : environment_(std::move(environment)),
      connections_(std::max<size_t>(1, parallel)) {}

  void get(request wanted, got done) override {
    auto& to = connections_[next_++ % connections_.size()];
    auto& net = environment_.network;
    if (!to.there) {
      to.there = net.open(environment_.host, net.store());
      to.back = net.open(net.store(), environment_.host);
    }
    to.there->send(envelope_bytes, nullptr,
                   [this, &to, x = std::move(wanted), done = std::move(done)] {
                     answer(to, x, find(x), done);
                   });
  }

private:
  struct connection {
    std::unique_ptr<simulated_network::stream> there, back;
  };

  result<shared_bytes> find(const request& x) {
    auto part = environment_.faults->failing_fetches;
    if (part > 0 && environment_.random.uniform() < part)
      return error{ec::unavailable, "the object store gives nothing", {}};
    auto file = environment_.what.stored_file(x.path);
    if (!file || x.bytes == 0)
      return file && x.most > 0 && file->size() > x.most
               ? error{ec::too_large, x.path + ": is too large", {}}
               : file;
    auto first = std::min<uint64_t>(x.first, file->size());
    return file->slice(first,
                       std::min<uint64_t>(x.bytes, file->size() - first));
  }

  void answer(connection& by, const request& x, result<shared_bytes> found,
              const got& done) {
    auto bytes = found ? found->size() : 0;
    if (found)
      environment_.seen_by.on_object_sent(environment_.node, x.path, bytes);
    by.back->send(envelope_bytes + bytes, &environment_.process,
                  [done, found = std::move(found)] { done(found); });
  }

  objects_environment environment_;
  std::vector<connection> connections_;
  size_t next_ = 0;
};

} // namespace

std::unique_ptr<object_store>
make_simulated_objects(objects_environment environment, size_t parallel) {
  return std::make_unique<simulated_objects>(std::move(environment), parallel);
}

} // namespace millrace::simulator
