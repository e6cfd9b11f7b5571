// What the model's world is made of: index words, data entries, clients. Everything is a byte, so
// that a state compares, hashes and copies as bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace loch::model {

inline constexpr int slot_count = 6;
inline constexpr int client_max = 4;
inline constexpr int entry_max = 20;
inline constexpr int key_count = 4;
inline constexpr int hash_max = 3;
inline constexpr std::uint8_t nobody = 0xFF;

using Key = std::uint8_t;    // 0 is K, the key of interest; X, Y, Z collide with it
using Value = std::uint8_t;  // 0 is absence
using Slot = std::uint8_t;

// An index table entry: EMPTY (perhaps with the identity of its last occupant), or a data entry's id,
// perhaps with the pending bit.
struct Word {
  std::uint8_t raw = 0;

  static Word occupied(int id, bool pending) {
    return {static_cast<std::uint8_t>(id + 1 + (pending ? 0x80 : 0))};
  }
  static Word emptied(int id) { return {static_cast<std::uint8_t>((id + 1) | 0x40)}; }
  [[nodiscard]] bool empty() const { return raw == 0 || (raw & 0x40) != 0; }
  [[nodiscard]] bool has_id() const { return raw != 0; }
  [[nodiscard]] int id() const { return (raw & 0x3F) - 1; }
  [[nodiscard]] bool pending() const { return (raw & 0x80) != 0; }
  [[nodiscard]] Word committed() const { return {static_cast<std::uint8_t>(raw & 0x7F)}; }
  friend bool operator==(Word, Word) = default;
};

enum class EntryKind : std::uint8_t { value, tombstone, copy };

// A data table entry. Never re-used here (the expiry period is infinite; expiry_model.h has reuse).
struct Entry {
  Key key = 0;
  Value value = 0;
  std::uint8_t valid = 0;
  std::uint8_t recycled = 0;
  Word previous;
  EntryKind kind = EntryKind::value;
  Slot from_slot = 0;  // of a MIGRATE copy
  Word from_word;
};

// Where a client is within its operation. The meaning of the fields is the operation's own.
struct ClientState {
  std::uint8_t op = 0;  // index in its program
  std::uint8_t begun = 0;
  std::uint8_t phase = 0;
  std::uint8_t i = 0;  // rank
  std::uint8_t candidate = nobody;
  std::uint8_t first_empty = nobody;
  std::uint8_t entry = nobody;  // its new entry
  std::uint8_t saw_pending = 0;
  std::uint8_t removed_any = 0;
  std::uint8_t saw_reserved = 0;
  std::uint8_t made_room = 0;  // a MIGRATE that it ran inside has ended
  std::uint8_t allocated = 0;  // over the whole program
  std::array<Word, hash_max> seen{};
  Word old;
  std::array<Word, 2> staged{};
  // An inner or outer MIGRATE.
  Slot from = 0;
  Slot to = 0;
  Word source;
  Word target;
  std::uint8_t copy = nobody;
};

struct State {
  std::array<Word, slot_count> slots{};
  std::uint8_t crashed = 0;  // bit per client
  std::array<ClientState, client_max> clients{};
  std::array<Entry, entry_max> entries{};
};

enum class OpType : std::uint8_t { get, put, remove, migrate, break_lease, scrub };

struct Op {
  OpType type = OpType::get;
  Key key = 0;
  Value value = 0;
  Slot from = 0;
  Slot to = 0;
};

struct Placed {
  Slot slot;
  Key key;
  Value value;
};

// What a fresh client does once all others have finished or crashed.
enum class After : std::uint8_t {
  nothing,
  probe,  // GET, PUT, GET: finds stuck keys
  scrub,  // fenced repair, then GET and PUT
};

struct Scenario {
  std::string name;
  int hash_functions = 2;
  std::vector<std::vector<Op>> clients;
  std::array<std::array<Slot, hash_max>, key_count> candidates{};
  std::vector<Placed> initial;
  unsigned may_crash = 0;  // bit per client; at most one crashes, at any step of an operation
  After after = After::probe;
};

}  // namespace loch::model
