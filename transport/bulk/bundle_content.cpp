// SPDX-License-Identifier: Apache-2.0
#include "transport/bulk/bundle_content.hpp"

#include "models/travelling_bundle.hpp"

namespace millrace {

namespace {

class bundle_content : public bulk_content {
public:
  bundle_content(std::shared_ptr<const bundle> x,
                 std::vector<shared_bytes> pieces,
                 std::function<void(const error&)> tell_broken)
    : bundle_(std::move(x)),
      pieces_(std::move(pieces)),
      tell_broken_(std::move(tell_broken)) {}

  std::vector<shared_bytes> head() const override { return pieces_; }

  size_t chunks() const override { return file() ? file()->chunks() : 0; }

  bool has(size_t chunk) const override { return file()->has(chunk); }

  result<shared_bytes> chunk(size_t chunk) override {
    if (auto right = file()->look_again(chunk); !right) {
      file()->give_up(right.failure());
      tell_broken_(right.failure());
      return right.failure();
    }
    auto size = file()->bytes_of_chunk();
    auto& all = file()->content();
    return all.slice(chunk * size, std::min(size, all.size() - chunk * size));
  }

  result<void> put(size_t chunk, const shared_bytes& content) override {
    return file()->put(chunk, content.view());
  }

  void when(size_t chunk,
            std::function<void(const result<void>&)> then) override {
    file()->when({chunk, chunk + 1}, std::move(then));
  }

private:
  arriving_file* file() const { return bundle_->weights_file.get(); }

  std::shared_ptr<const bundle> bundle_;
  std::vector<shared_bytes> pieces_;
  std::function<void(const error&)> tell_broken_;
};

} // namespace

result<std::shared_ptr<bulk_content>>
make_bulk_content(std::shared_ptr<const bundle> opened,
                  std::function<void(const error&)> tell_broken) {
  auto pieces = travelling::pieces_of(*opened);
  if (!pieces)
    return pieces.failure();
  return std::shared_ptr<bulk_content>{std::make_shared<bundle_content>(
    std::move(opened), std::move(*pieces), std::move(tell_broken))};
}

} // namespace millrace
