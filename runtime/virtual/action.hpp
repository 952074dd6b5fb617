// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace millrace {

/// A move-only function object for one later call. Unlike std::function, the
/// callable need not be copyable, and up to 48 bytes are stored inline: a
/// simulated world has millions of actions.
class action {
public:
  action() = default;
  action(std::nullptr_t) {}

  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>,
                         action> && std::invocable<std::remove_cvref_t<F>&>)
    action(F&& f) {
    using held = std::remove_cvref_t<F>;
    if constexpr (fits<held>) {
      ::new (static_cast<void*>(inside_)) held(std::forward<F>(f));
      how_ = &inside<held>;
    } else {
      ::new (static_cast<void*>(inside_)) held*(new held(std::forward<F>(f)));
      how_ = &outside<held>;
    }
  }

  action(action&& other) noexcept { take(other); }
  action& operator=(action&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  ~action() { clear(); }

  explicit operator bool() const { return how_ != nullptr; }

  void operator()() { how_->call(inside_); }

private:
  static constexpr size_t room = 48;

  template <class F>
  static constexpr bool fits = sizeof(F) <= room
                               && alignof(F) <= alignof(std::max_align_t)
                               && std::is_nothrow_move_constructible_v<F>;

  struct operations {
    void (*call)(void*);
    void (*move)(void* from, void* to); ///< also destroys `from`
    void (*destroy)(void*);
  };

  template <class F>
  static constexpr operations inside{[](void* x) { (*static_cast<F*>(x))(); },
                                     [](void* from, void* to) {
                                       ::new (to)
                                         F(std::move(*static_cast<F*>(from)));
                                       static_cast<F*>(from)->~F();
                                     },
                                     [](void* x) { static_cast<F*>(x)->~F(); }};

  template <class F>
  static constexpr operations outside{
    [](void* x) { (**static_cast<F**>(x))(); },
    [](void* from, void* to) { ::new (to) F*(*static_cast<F**>(from)); },
    [](void* x) { delete *static_cast<F**>(x); }};

  void take(action& other) {
    how_ = std::exchange(other.how_, nullptr);
    if (how_ != nullptr)
      how_->move(other.inside_, inside_);
  }
  void clear() {
    if (auto* how = std::exchange(how_, nullptr))
      how->destroy(inside_);
  }

  alignas(std::max_align_t) std::byte inside_[room];
  const operations* how_ = nullptr;
};

} // namespace millrace
