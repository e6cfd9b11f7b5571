// All operations of a run, compactly (32 bytes each, names kept once), grouped by key.
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

// Numbers names in the order of their first sight.
class Names {
 public:
  std::uint32_t number(std::string_view name);
  [[nodiscard]] const std::string& operator[](std::uint32_t number) const { return names_[number]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(names_.size()); }

 private:
  std::deque<std::string> names_;  // never moves a string: the map borrows them
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

// One key's operations, by invocation, with the preload's lines taken out and told as `start`, the open
// lines of a durable history that a later line completes removed, and the losses of nodes added: each may
// have taken this key along.
struct KeyHistory {
  std::uint32_t key = 0;
  Start start = Start::any;
  std::vector<KeyOp> operations;
};

class HistoryTable {
 public:
  HistoryTable();
  void add(const OperationView& operation);
  // Groups by key. Once, after the last add().
  void finish();

  [[nodiscard]] std::uint64_t operations() const { return all_.size() + losses_.size(); }
  [[nodiscard]] std::uint32_t keys() const { return keys_.size(); }
  // The history of key number `key` < keys(). `otherwise` is its start if no line says.
  [[nodiscard]] KeyHistory key_history(std::uint32_t key, Start otherwise) const;
  [[nodiscard]] const std::string& key_name(std::uint32_t key) const { return keys_[key]; }
  // The operation as it was recorded.
  [[nodiscard]] Operation restore(std::uint32_t key, const KeyOp& op) const;

 private:
  struct Entry {
    KeyOp op;
    std::uint32_t key = 0;
  };
  Names keys_;
  Names values_;
  std::vector<Entry> all_;
  std::vector<KeyOp> losses_;  // `value` names the node
  std::vector<KeyOp> grouped_;
  std::vector<std::uint64_t> first_;  // index in grouped_ of each key's first operation, and the end
};

}  // namespace loch::check
