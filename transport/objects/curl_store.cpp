// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <thread>

#include <arpa/inet.h>
#include <curl/curl.h>
#include <sys/socket.h>

#include "runtime/hash.hpp"
#include "runtime/random.hpp"
#include "runtime/time.hpp"
#include "runtime/worker_thread.hpp"
#include "transport/objects/credentials.hpp"
#include "transport/objects/object_store.hpp"
#include "transport/objects/reply.hpp"

namespace millrace {

namespace {

/// Tries of a request after temporary errors; the pauses between them double.
constexpr int most_tries = 5;
constexpr auto first_pause = 100ms;

/// A server slower than 1 MiB/s over all connections is given up after this
/// time. (promises.md, section 4: origin)
constexpr uint64_t slowest = 1 << 20; // bytes a second
constexpr long slow_seconds = 10;
constexpr long connect_ms = 10'000;

/// Bytes of an error's body that are read.
constexpr size_t most_excuses = 4096;

struct easy_deleter {
  void operator()(CURL* x) const { curl_easy_cleanup(x); }
};
using easy_handle = std::unique_ptr<CURL, easy_deleter>;

struct list_deleter {
  void operator()(curl_slist* x) const { curl_slist_free_all(x); }
};
using header_list = std::unique_ptr<curl_slist, list_deleter>;

/// Initialises libcurl once per process.
void make_curl_ready() {
  static const auto done = curl_global_init(CURL_GLOBAL_DEFAULT);
  MILLRACE_ASSERT(done == CURLE_OK);
}

/// One request, running or waiting.
struct transfer {
  object_store::request what;
  object_store::got done;
  int tries = 0;
  timestamp due; ///< earliest start
  easy_handle handle;
  header_list headers;
  object_reply reply;
  bool own_network = false;
  std::string forbidden; ///< why no connection was allowed
  std::array<char, CURL_ERROR_SIZE> why{};

  long status() const {
    long out = 0;
    curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &out);
    return out;
  }
};

/// libcurl's write callback: stores received data.
size_t take_data(char* at, size_t, size_t n, void* to) {
  auto& x = *static_cast<transfer*>(to);
  auto& body = x.reply.body;
  if (x.status() >= 300) {
    body.append(at, std::min(n, most_excuses - body.size()));
    return body.size() < most_excuses ? n : 0; // the status suffices
  }
  if (body.size() + n > x.reply.most) {
    x.reply.too_large = true;
    return 0;
  }
  body.append(at, n);
  return n;
}

/// The octets of an address in network order; empty for other than IP.
std::span<const uint8_t> octets_of(const sockaddr& x) {
  auto bytes = [](auto& y) {
    return std::span{reinterpret_cast<const uint8_t*>(&y), sizeof(y)};
  };
  if (x.sa_family == AF_INET)
    return bytes(reinterpret_cast<const sockaddr_in&>(x).sin_addr);
  if (x.sa_family == AF_INET6)
    return bytes(reinterpret_cast<const sockaddr_in6&>(x).sin6_addr);
  return {};
}

/// libcurl's socket callback, after name resolution: opens a socket if the
/// address is allowed.
curl_socket_t open_socket(void* of, curlsocktype, curl_sockaddr* to) {
  auto& x = *static_cast<transfer*>(of);
  auto octets = octets_of(to->addr);
  auto kind = kind_of_address(octets);
  if (kind == address_kind::everybodys
      || (kind == address_kind::own && x.own_network)) {
    x.forbidden.clear(); // the name has an allowed address, too
    return ::socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
  }
  std::array<char, INET6_ADDRSTRLEN> text{"an unknown address family"};
  if (!octets.empty())
    ::inet_ntop(to->family, octets.data(), text.data(), text.size());
  x.forbidden =
    std::string{"resolves to "} + text.data()
    + (kind == address_kind::own
         ? ", which is no public address; expected own_network: true for a"
           " private network"
         : ", which is never contacted: it may return secrets of the machine");
  return CURL_SOCKET_BAD;
}

class curl_store : public object_store {
public:
  curl_store(const object_store_config& settings, object_location where)
    : settings_(settings),
      where_(std::move(where)),
      multi_(curl_multi_init()) {
    curl_multi_setopt(multi_.get(), CURLMOPT_MAX_HOST_CONNECTIONS,
                      static_cast<long>(settings_.parallel));
    thread_ = std::thread{[this] {
      name_this_thread("objects");
      loop();
    }};
  }

  ~curl_store() override {
    stopping_ = true;
    curl_multi_wakeup(multi_.get());
    thread_.join();
  }

  void get(request wanted, got done) override {
    auto fresh = std::make_unique<transfer>();
    fresh->what = std::move(wanted);
    fresh->done = std::move(done);
    fresh->own_network = settings_.own_network;
    {
      std::lock_guard guard{mutex_};
      asked_.push_back(std::move(fresh));
    }
    curl_multi_wakeup(multi_.get());
  }

private:
  struct multi_deleter {
    void operator()(CURLM* x) const { curl_multi_cleanup(x); }
  };

  void loop() {
    while (!stopping_) {
      take_asked();
      start_due();
      int running = 0;
      curl_multi_perform(multi_.get(), &running);
      take_done();
      curl_multi_poll(multi_.get(), nullptr, 0, pause_ms(), nullptr);
    }
    for (auto& [handle, x] : running_) // before multi_ ends
      curl_multi_remove_handle(multi_.get(), handle);
  }

  void take_asked() {
    std::lock_guard guard{mutex_};
    for (auto& x : asked_)
      waiting_.push_back(std::move(x));
    asked_.clear();
  }

  void start_due() {
    for (auto i = waiting_.begin();
         i != waiting_.end() && running_.size() < settings_.parallel;) {
      if ((*i)->due > steady_now()) {
        ++i;
        continue;
      }
      auto x = std::move(*i);
      i = waiting_.erase(i);
      start(std::move(x));
    }
  }

  /// Time until the first waiting request may start.
  int pause_ms() const {
    auto out = milliseconds{1000};
    if (running_.size() < settings_.parallel)
      for (auto& x : waiting_)
        out =
          std::min(out, std::chrono::ceil<milliseconds>(x->due - steady_now()));
    return static_cast<int>(std::max(out, milliseconds{0}).count());
  }

  void start(std::unique_ptr<transfer> x) {
    ++x->tries;
    x->reply = {};
    x->forbidden.clear();
    x->headers.reset();
    x->reply.url = where_.base + x->what.path;
    x->reply.first = x->what.first;
    x->reply.range = x->what.bytes;
    x->reply.most = x->what.bytes > 0 ? x->what.bytes : x->what.most;
    x->reply.body.reserve(x->what.bytes);
    x->handle.reset(curl_easy_init());
    if (auto ready = prepare(*x); !ready)
      return x->done(ready.failure());
    auto* h = x->handle.get();
    running_[h] = std::move(x);
    curl_multi_add_handle(multi_.get(), h);
  }

  result<void> prepare(transfer& x) {
    auto* h = x.handle.get();
    auto good = h != nullptr;
    auto set = [&](auto option, auto value) {
      good = good && curl_easy_setopt(h, option, value) == CURLE_OK;
    };
    auto is_file = where_.kind == object_location::scheme::file;
    set(CURLOPT_URL, x.reply.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, is_file ? "file" : "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_PROXY, ""); // a proxy's address would be checked instead
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    set(CURLOPT_LOW_SPEED_LIMIT,
        static_cast<long>(slowest / settings_.parallel));
    set(CURLOPT_LOW_SPEED_TIME, slow_seconds);
    set(CURLOPT_USERAGENT, "millrace");
    set(CURLOPT_ERRORBUFFER, x.why.data());
    set(CURLOPT_WRITEFUNCTION, &take_data);
    set(CURLOPT_WRITEDATA, &x);
    set(CURLOPT_OPENSOCKETFUNCTION, &open_socket);
    set(CURLOPT_OPENSOCKETDATA, &x);
    if (x.what.bytes > 0) {
      auto last = x.what.first + x.what.bytes - 1;
      auto range = std::to_string(x.what.first) + "-" + std::to_string(last);
      set(CURLOPT_RANGE, range.c_str());
    }
    if (where_.kind == object_location::scheme::s3) {
      auto who = find_credentials(settings_); // may be renewed
      if (!who)
        return who.failure();
      if (!who->id.empty()) {
        auto how = "aws:amz:" + settings_.region + ":s3";
        set(CURLOPT_AWS_SIGV4, how.c_str());
        set(CURLOPT_USERNAME, who->id.c_str());
        set(CURLOPT_PASSWORD, who->secret.c_str());
        add_header(x, "x-amz-content-sha256: " + sha256_hex({}));
        x.reply.signed_by = who->from;
      }
      if (!who->session.empty())
        add_header(x, "x-amz-security-token: " + who->session);
      set(CURLOPT_HTTPHEADER, x.headers.get());
    }
    if (!good)
      return error{ec::internal, x.reply.url + ": libcurl refuses it", {}};
    return {};
  }

  /// Adds a header that is also signed.
  static void add_header(transfer& x, const std::string& line) {
    auto* all = curl_slist_append(x.headers.get(), line.c_str());
    MILLRACE_ASSERT(all != nullptr);
    static_cast<void>(x.headers.release()); // the new head of the list
    x.headers.reset(all);
  }

  void take_done() {
    int left = 0;
    while (auto* message = curl_multi_info_read(multi_.get(), &left)) {
      auto* h = message->easy_handle;
      auto code = message->data.result;
      curl_multi_remove_handle(multi_.get(), h);
      auto x = std::move(running_.extract(h).mapped());
      x->reply.code = code;
      x->reply.status = x->status();
      x->reply.why = x->why.data();
      end(std::move(x));
    }
  }

  void end(std::unique_ptr<transfer> x) {
    auto failure = failure_of(x->reply);
    if (!x->forbidden.empty())
      failure =
        object_failure{{ec::forbidden, x->reply.url + ": " + x->forbidden, {}}};
    if (failure && failure->may_pass && x->tries < most_tries) {
      auto pause = first_pause * (1 << (x->tries - 1));
      x->due = steady_now() + pause + nanoseconds{pause} * spread() / 256;
      waiting_.push_back(std::move(x));
      return;
    }
    if (failure)
      return x->done(std::move(failure->what));
    auto owner = std::make_shared<std::string>(std::move(x->reply.body));
    auto bytes = std::as_bytes(std::span{*owner});
    x->done(shared_bytes{bytes, std::move(owner)});
  }

  /// 0 to 255: requests that failed together are not retried together.
  static int64_t spread() { return static_cast<int64_t>(entropy() % 256); }

  object_store_config settings_;
  object_location where_;
  std::unique_ptr<CURLM, multi_deleter> multi_;
  std::map<CURL*, std::unique_ptr<transfer>> running_; ///< on the thread
  std::deque<std::unique_ptr<transfer>> waiting_;      ///< likewise
  std::mutex mutex_;
  std::vector<std::unique_ptr<transfer>> asked_; ///< guarded
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace

result<std::unique_ptr<object_store>>
open_object_store(const object_store_config& settings) {
  auto where = locate(settings);
  if (!where)
    return where.failure();
  make_curl_ready();
  return std::unique_ptr<object_store>{
    std::make_unique<curl_store>(settings, std::move(*where))};
}

} // namespace millrace
