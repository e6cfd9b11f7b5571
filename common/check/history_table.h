// A compact table of all operations of a history, grouped by key: about 72 bytes per operation, and each name
// once.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/check/key_history.h"

namespace loch::check {

// Gives each distinct name a number, in the order of first occurrence.
class Names {
 public:
  std::uint32_t number(std::string_view name);
  [[nodiscard]] const std::string& operator[](std::uint32_t number) const { return names_[number]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(names_.size()); }

 private:
  // a deque, because numbers_ holds views of its strings and a deque never moves them
  std::deque<std::string> names_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

// The operations of one key, ordered by invocation. `start` says what the lines of the preload said. The line
// that a durable writer recorded before an operation began is removed if the line of the finished operation
// is there. The losses of nodes are included, since each may have removed this key.
struct KeyHistory {
  std::uint32_t key = 0;
  Start start = Start::any;
  std::vector<KeyOp> operations;
};

class HistoryTable {
 public:
  HistoryTable();
  void add(const OperationView& operation);
  // Groups the operations by key. To be called once, after the last add().
  void finish();

  [[nodiscard]] std::uint64_t operations() const { return all_.size() + losses_.size(); }
  [[nodiscard]] std::uint64_t losses() const { return losses_.size(); }
  [[nodiscard]] std::uint32_t keys() const { return keys_.size(); }
  // Returns the history of a key, `key` < keys(). `otherwise` is the key's start state if no line of the
  // preload tells it.
  [[nodiscard]] KeyHistory key_history(std::uint32_t key, Start otherwise) const;
  [[nodiscard]] const std::string& key_name(std::uint32_t key) const { return keys_[key]; }
  // Converts a KeyOp of key number `key` back to the recorded operation with its names.
  [[nodiscard]] Operation restore(std::uint32_t key, const KeyOp& op) const;

 private:
  struct Entry {
    KeyOp op;
    std::uint32_t key = 0;
  };
  Names keys_;
  Names values_;
  std::vector<Entry> all_;
  std::vector<KeyOp> losses_;  // losses of nodes; `value` is the number that `values_` gives the node's name
  std::vector<KeyOp> grouped_;
  // for each key the index of its first operation in grouped_; last, the size of grouped_
  std::vector<std::uint64_t> first_;
};

}  // namespace loch::check
