// A compact table of all operations of a history, grouped by key: 36 bytes per operation, each name of a key
// once, and the name of a value only if it is not of the form "w3.17".
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
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
  // A place of the hash table: the name's number, and a part of its hash, which spares most comparisons of
  // texts.
  struct Place {
    std::uint32_t number = none;  // none: the place is free
    std::uint32_t hash = 0;
  };
  void grow();
  void put(const Place& place);

  std::deque<std::string> names_;
  std::vector<Place>
      places_;  // a power of two of them; a name is at its hash or behind, before the next free one
};

// The name of a value in 58 bits: the two numbers of "w3.17", or the number of another name in a table of
// texts.
using ValueCode = std::uint64_t;

// The operations of one key, ordered by invocation. `start` says what the lines of the preload said. The line
// that a durable writer recorded before an operation began is removed if the line of the finished operation
// is there. The losses of nodes are included, since each may have removed this key.
struct KeyHistory {
  std::uint32_t key = 0;
  Start start = Start::any;
  std::vector<KeyOp> operations;
  // the names of the values; KeyOp::value is an index into this vector
  std::vector<ValueCode> values;
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
  // Converts an operation of `history` back to the recorded operation with its names.
  [[nodiscard]] Operation restore(const KeyHistory& history, const KeyOp& op) const;

 private:
  struct Entry {
    Nanos invoke_ns;
    Nanos return_ns;
    ValueCode value : 58;
    std::uint64_t kind : 3;
    std::uint64_t outcome : 3;
    std::int32_t client;
    std::uint32_t key;
  };
  static_assert(sizeof(Entry) == 32);
  [[nodiscard]] ValueCode code_of(std::string_view value);
  [[nodiscard]] std::string spelled(ValueCode code) const;

  Names keys_;
  Names texts_;  // names of nodes that were lost, and of values that are not of the form "w3.17"
  std::deque<Entry> all_;
  std::deque<Entry> losses_;  // losses of nodes; `value` is the code of the node's name
  // indices into all_, grouped by key, of each key in the order of add()
  std::vector<std::uint32_t> grouped_;
  // for each key the index of its first operation in grouped_; last, the size of grouped_
  std::vector<std::uint64_t> first_;
};

}  // namespace loch::check
