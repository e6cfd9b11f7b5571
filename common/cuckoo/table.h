// A cuckoo table that one worker owns: finds the slot of a key, and plans how to free a slot. The caller
// holds the memory, which the table reads through TableMemory. The caller also makes all stores, one at a
// time, because clients may READ the memory meanwhile.
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
  // Returns the index word (index_word.h) in a slot of the table.
  [[nodiscard]] virtual std::uint64_t word(std::uint64_t slot) const = 0;
  virtual void read_key(std::uint32_t entry, std::byte* out) const = 0;
  // Whether the entry's key is `key`, which is as long.
  [[nodiscard]] virtual bool has_key(std::uint32_t entry, std::span<const std::byte> key) const = 0;
};

class Table final : public Occupancy {
 public:
  // Makes the table of one server worker: `row` is the worker's number, which the hash family treats as the
  // number of a node, so that all candidate slots of a key lie in one worker's table. `family` and `memory`
  // must outlive the table.
  Table(const HashFamily& family, std::uint32_t row, std::uint32_t key_size, const TableMemory& memory);

  struct Lookup {
    std::optional<std::uint64_t> slot;  // the slot that holds the key, if it is present
    std::uint64_t word = 0;             // index word in `slot`
    std::optional<std::uint64_t> free;  // the first empty slot among the candidates that were probed
    std::uint32_t compared = 0;         // number of stored keys that were compared
  };
  // Probes the key's candidate slots in rank order until the key is found.
  [[nodiscard]] Lookup look_up(KeyHash& hash, std::span<const std::byte> key);

  struct Moves {
    // Path of moves: moving slots[i-1] to slots[i], from the last to the first, frees slots[0]. Empty if
    // the table is full.
    std::vector<std::uint64_t> slots;
    std::uint64_t examined = 0;
  };
  // Plans moves that free one of the candidate slots of a key, all of which are occupied.
  [[nodiscard]] Moves make_room(KeyHash& hash);

  // These two functions implement Occupancy for path searches; `number` is a slot number of the hash family.
  [[nodiscard]] bool is_free(std::uint64_t number) override;
  std::uint32_t candidates(std::uint64_t number, std::uint64_t* out) override;

 private:
  [[nodiscard]] std::uint64_t slot_of(std::uint64_t number) const { return family_.place(number).slot; }

  const HashFamily& family_;
  std::uint32_t row_;
  const TableMemory& memory_;
  std::vector<std::byte> key_;  // buffer for the key of an entry that is examined
};

}  // namespace loch::cuckoo
