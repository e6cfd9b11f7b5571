// All worlds seen so far, each once, as bytes: a few dozen each, one allocation a megabyte.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/model/machine.h"

namespace loch::model {

class StateStore {
 public:
  // Only the given numbers of clients and entries are in use.
  StateStore(int clients, int entries);

  // Whether the world is new; it then gets the next number.
  bool insert(const World& world);
  void load(std::uint32_t number, World* world) const;
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(records_.size()); }

 private:
  void pack(const World& world);
  [[nodiscard]] std::uint64_t hash() const;
  [[nodiscard]] const char* keep();
  void grow();

  std::size_t clients_bytes_;
  std::size_t entries_bytes_;
  std::vector<char> packed_;
  struct Record {
    const char* bytes;
    std::uint32_t size;
    std::uint32_t hash;
  };
  std::vector<Record> records_;
  std::vector<std::uint32_t> table_;  // open addressing: record number + 1, or 0
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_left_ = 0;
  char* block_at_ = nullptr;
};

}  // namespace loch::model
