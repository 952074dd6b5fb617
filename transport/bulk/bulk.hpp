// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/chunks.hpp"
#include "transport/messages/bulk.hpp"

namespace millrace {

/// Something that travels: a head, and a file in chunks that are there or will
/// be. Any thread.
class bulk_content {
public:
  virtual ~bulk_content() = default;

  /// Pieces that are there from the start.
  virtual std::vector<shared_bytes> head() const = 0;

  virtual size_t chunks() const = 0;
  virtual bool has(size_t chunk) const = 0;

  /// Of one that is there. Errors: bad_config when it is not as it was; then
  /// nothing of it is to be given any more.
  virtual result<shared_bytes> chunk(size_t chunk) = 0;

  /// Takes one that came. Errors: bad_config when it is not the right one.
  virtual result<void> put(size_t chunk, const shared_bytes& content) = 0;

  /// Calls back when it is there, or never will be.
  virtual void when(size_t chunk,
                    std::function<void(const result<void>&)> then) = 0;
};

/// A host that has some of a content, or is getting it.
struct bulk_source {
  std::string node;
  std::string address;           ///< of its bulk endpoint
  std::string token;             ///< by which it gives that content
  std::vector<chunk_range> only; ///< what it has; empty: all
  friend bool operator==(const bulk_source&, const bulk_source&) = default;
};

/// What somebody wants to have here.
struct bulk_order {
  std::string content;
  transfer_rank rank = transfer_rank::start;
  /// Some of it that is here; null: nothing is.
  std::shared_ptr<bulk_content> known;
  /// Else makes it of its head. Errors: bad_config for what is not it.
  std::function<result<std::shared_ptr<bulk_content>>(
    const std::vector<shared_bytes>& head)>
    begin;
  /// The chunks it wants, in their order.
  std::function<std::vector<chunk_range>(const bulk_content&)> wanted;
  /// Something of it came, so many chunks are missing yet; called now and then,
  /// and with 0 once.
  std::function<void(size_t missing)> got;
  /// Nothing more comes from there: another source has to be found.
  std::function<void(const std::string& node, const error& why)> lost;
};

/// How hosts give each other what is too large for messages. Any thread;
/// calls back on its own.
class bulk_port {
public:
  virtual ~bulk_port() = default;

  /// Where other hosts connect; empty before there is any.
  virtual std::string address() const = 0;

  /// Gives of it, to whoever says the token, what is there or comes. Null: it
  /// is not known yet what that will be, and who asks waits until it is.
  virtual void offer(const std::string& content, const std::string& token,
                     std::shared_ptr<bulk_content> x) = 0;
  virtual void withdraw(const std::string& content) = 0;

  /// Gets what is wanted from the sources that are named next.
  virtual void pull(bulk_order x) = 0;
  virtual void pull_from(const std::string& content,
                         std::vector<bulk_source> sources) = 0;
  virtual void stop(const std::string& content) = 0;

  /// Gives and gets nothing, as at first.
  virtual void clear() = 0;

  /// A node is gone: it is given nothing more, and asked for nothing.
  virtual void forget(const std::string& node) = 0;
};

} // namespace millrace
