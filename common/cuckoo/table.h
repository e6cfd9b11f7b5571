// A cuckoo table that one worker owns, in memory that somebody else holds: where a key is, and how to make
// room for one. Everything is read through TableMemory; whoever owns the memory does the stores, one by
// one, because others may be reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/cuckoo/hash_family.h"
#include "common/cuckoo/index_word.h"
#include "common/cuckoo/path.h"

namespace loch::cuckoo {

class TableMemory {
 public:
  virtual ~TableMemory() = default;
  // The index word (index_word.h) in a slot of the table.
  [[nodiscard]] virtual std::uint64_t word(std::uint64_t slot) const = 0;
  virtual void read_key(std::uint32_t entry, std::byte* out) const = 0;
};

class Table final : public Occupancy {
 public:
  // The part of the family's slots that is its "node" `row`: all candidates of a key lie in one. Family
  // and memory outlive it.
  Table(const HashFamily& family, std::uint32_t row, std::uint32_t key_size, const TableMemory& memory);

  struct Lookup {
    std::optional<std::uint64_t> slot;  // the slot that holds the key
    std::uint64_t word = 0;             // and its word
    std::optional<std::uint64_t> free;  // the first empty slot among the candidates that were looked at
    std::uint32_t compared = 0;         // keys compared
  };
  // Probes the candidates in rank order until the key is found.
  [[nodiscard]] Lookup look_up(KeyHash& hash, std::span<const std::byte> key);

  struct Moves {
    // slots[0] becomes free by moving slots[i-1] to slots[i], from the last to the first. Empty: the
    // table is full.
    std::vector<std::uint64_t> slots;
    std::uint64_t examined = 0;
  };
  // For a key whose candidates are all taken.
  [[nodiscard]] Moves make_room(KeyHash& hash);

  // Occupancy; by slot numbers of the family.
  [[nodiscard]] bool is_free(std::uint64_t number) override;
  std::uint32_t candidates(std::uint64_t number, std::uint64_t* out) override;

 private:
  [[nodiscard]] std::uint64_t slot_of(std::uint64_t number) const { return family_.place(number).slot; }

  const HashFamily& family_;
  std::uint32_t row_;
  const TableMemory& memory_;
  std::vector<std::byte> key_;  // of an entry that is looked at
};

}  // namespace loch::cuckoo
