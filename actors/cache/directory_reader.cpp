// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include <sys/stat.h>

#include "actors/cache/cache.hpp"
#include "models/bundle_store.hpp"
#include "models/host_memory.hpp"
#include "models/travelling_bundle.hpp"
#include "runtime/log.hpp"
#include "runtime/text.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

namespace {

/// Interval between scans of the directory.
constexpr auto look_again = 2000ms;

/// Shortest pause between attempts while another process of the host reads the
/// bundle into memory.
constexpr auto try_again = 50ms;
constexpr auto longest_wait = 30s;

class directory_reader : public bundle_reader {
public:
  directory_reader(std::string directory, memory_maker memory)
    : folder_(directory),
      store_(std::move(directory)),
      memory_(std::move(memory)),
      thread_("cache") {}

  void open(const std::string& model, uint64_t version, verify how,
            opened done) override {
    thread_.post([this, model, version, how, done = std::move(done)] {
      open_soon(model, version, how, done, 0ns);
    });
  }

  void watch(changed tell, broken tell_broken) override {
    thread_.post([this, x = std::move(tell), y = std::move(tell_broken)] {
      auto first = !tell_;
      tell_ = x;
      tell_broken_ = y;
      told_.reset(); // the previous watcher received it
      if (first)
        thread_.repeat(look_again, [this] { look(); });
      else
        look();
    });
  }

  void bring(std::shared_ptr<const bundle> opened, layer_range layers,
             transfer_rank rank) override {
    thread_.post([this, x = std::move(opened), layers, rank] {
      if (!x->weights_file)
        return;
      // The caller checks that the layers exist; here the range is only
      // clamped.
      auto all = x->info.layers.size();
      auto last = layers.last == 0 ? all : std::min(layers.last, all);
      auto first = std::min(layers.first, last);
      auto after = std::find_if(wanted_.begin(), wanted_.end(),
                                [&](auto& y) { return y.rank > rank; });
      wanted_.insert(after, {x, chunks_of(*x, first, last), rank});
      if (!std::exchange(verifies_, true))
        verify_next();
    });
  }

private:
  /// Chunks of a bundle to verify, while the bundle has users.
  struct wanted {
    std::weak_ptr<const bundle> what;
    chunk_range chunks;
    transfer_rank rank;
  };

  void look() {
    look_for_folder();
    auto found = store_.list();
    auto news = report(found.broken);
    std::vector<model_info> now;
    for (auto& x : found.good)
      now.push_back(describe(x.content, x.aliases));
    std::vector<std::string> changed;
    std::map<std::string, stamps> files;
    for (auto& x : now) {
      auto folder = folder_of(x.model, x.version);
      auto& its = files[folder] = stamps_of(folder);
      if (auto i = files_.find(folder); i == files_.end() || i->second != its)
        changed.push_back(x.content);
    }
    files_ = std::move(files);
    if (told_ && *told_ == now && changed.empty() && !news)
      return;
    told_ = now;
    tell_({std::move(now), {reported_.begin(), reported_.end()}, changed});
  }

  /// Opens a bundle, and retries while another process of the host reads the
  /// bundle into memory. After `longest_wait` that process counts as stalled,
  /// and the bundle is used from the file.
  void open_soon(const std::string& model, uint64_t version, verify how,
                 const opened& done, nanoseconds waited) {
    auto x = open_now(model, version, how);
    if (x || x.failure().code != ec::conflict)
      return done(std::move(x));
    if (waited >= longest_wait)
      return done(open_now(model, version, verify::all_but_weights));
    // An attempt blocks this thread when the other process is stalled, so the
    // pause grows with the time waited.
    auto pause = std::clamp<nanoseconds>(waited / 4, try_again, 20 * try_again);
    waited += pause + host_memory::patience;
    thread_.post_after(std::chrono::ceil<milliseconds>(pause), [=, this] {
      open_soon(model, version, how, done, waited);
    });
  }

  result<fetched> open_now(const std::string& model, uint64_t version,
                           verify how) {
    auto folder = folder_of(model, version);
    // Read first: the bundle is opened in this state or a later one.
    auto files = stamps_of(folder);
    auto x = store_.open(model, std::to_string(version), how, memory_);
    if (!x) {
      if (auto i = files_.find(folder); i != files_.end())
        i->second = std::move(files);
      return x.failure();
    }
    auto aliases = store_.aliases(model);
    if (!aliases)
      return aliases.failure();
    auto info = describe(*x, pointing_at(*aliases, version));
    auto& file = x->weights_file;
    auto is_there =
      how == verify::into_memory && file && file->has({0, file->chunks()});
    return fetched{std::make_shared<bundle>(std::move(*x)), std::move(info),
                   is_there ? "memory" : "disk"};
  }

  /// Verifies one chunk and posts itself for the next one, so that an open need
  /// not wait for all chunks.
  void verify_next() {
    if (wanted_.empty()) {
      verifies_ = false;
      return;
    }
    auto& [what, chunks, rank] = wanted_.front();
    auto content = what.lock();
    if (!content || chunks.size() == 0
        || content->weights_file->is_given_up()) {
      wanted_.pop_front();
      auto more = std::any_of(wanted_.begin(), wanted_.end(), [&](auto& x) {
        return x.what.lock() == content;
      });
      if (content && !more) // so that other processes can read their chunks
        content->weights_file->rest();
    } else if (auto done = content->weights_file->verify(chunks.first++);
               !done) {
      content->weights_file->give_up(done.failure());
      if (tell_broken_ && done.failure().code != ec::overloaded)
        tell_broken_(*content, done.failure());
      wanted_.pop_front();
    }
    thread_.post([this] { verify_next(); });
  }

  /// Size and change time (seconds, nanoseconds) of a file; a move also changes
  /// the time.
  using stamp = std::array<int64_t, 3>;
  using stamps = std::map<std::string, stamp>; ///< by path

  std::string folder_of(const std::string& model, uint64_t version) const {
    return folder_ + "/" + model + "/" + std::to_string(version);
  }

  /// Stamps of all files of a bundle: a repair of one file changes only its
  /// stamp.
  static stamps stamps_of(const std::string& folder) {
    stamps out;
    std::error_code failed;
    for (std::filesystem::recursive_directory_iterator i{folder, failed}, end;
         !failed && i != end; i.increment(failed)) {
      struct stat s {};
      if (::stat(i->path().c_str(), &s) == 0)
        out[i->path().string()] = {s.st_size, s.st_ctim.tv_sec,
                                   s.st_ctim.tv_nsec};
    }
    return out;
  }

  /// Logs once that the folder does not exist: no bundle can be found.
  void look_for_folder() {
    std::error_code none;
    auto there = std::filesystem::is_directory(folder_, none);
    if (!there && !missed_)
      log_event(log_level::warning, "cache", "no_folder",
                {{"folder", folder_}});
    missed_ = !there;
  }

  /// Logs the error of each unusable bundle once. Returns whether the set of
  /// errors changed.
  bool report(const std::vector<error>& broken) {
    std::set<std::string> now;
    for (auto& x : broken) {
      now.insert(x.text);
      if (!reported_.contains(x.text))
        log_event(log_level::error, "cache", "broken_bundle",
                  {{"error", x.text}});
    }
    return std::exchange(reported_, now) != now;
  }

  std::string folder_;
  /// The last scan found no folder. Used on the thread only.
  bool missed_ = false;
  bundle_store store_;
  memory_maker memory_;
  // The members below are used on the thread only.
  std::set<std::string> reported_;
  std::optional<std::vector<model_info>> told_;
  std::map<std::string, stamps> files_; ///< of bundles, by folder
  std::deque<wanted> wanted_;           ///< by rank
  bool verifies_ = false;               ///< verify_next() is posted
  changed tell_;
  broken tell_broken_;
  worker_thread thread_;
};

} // namespace

std::unique_ptr<bundle_reader> read_directory(std::string directory,
                                              memory_maker memory) {
  return std::make_unique<directory_reader>(std::move(directory),
                                            std::move(memory));
}

} // namespace millrace
