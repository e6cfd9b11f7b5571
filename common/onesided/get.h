// A GET by READs of a cuckoo index and of the entries that its words name (Nessie, 2017, 4.2.1): a forward
// pass over the key's candidate slots in rank order, and, if the key is in none of them, a reverse pass that
// confirms it. What the tables are made of is the protocol's.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>

#include "common/coro/task.h"
#include "common/cuckoo/hash_family.h"
#include "common/fabric/fabric.h"
#include "common/kv/protocol.h"

namespace loch::onesided {

// A slot's word, read.
struct WordRead {
  bool ok = false;  // false: nobody can say what the slot holds
  std::uint64_t word = 0;
};

// The words of a key's candidate slots, by rank, as an operation saw or left them.
using SeenWords = std::array<std::uint64_t, cuckoo::max_functions>;
constexpr std::uint32_t no_rank = ~std::uint32_t{0};

// What the entry that a slot's word names says about a key.
enum class Look : std::uint8_t {
  other_key,
  value,     // committed, and here is its value
  pending,   // an insert that is under way: there is no version before it
  conflict,  // a concurrent operation on the key
  expired,   // too old: what was read may be another entry's
  failed,    // the entry cannot be read
};
struct Looked {
  Look look = Look::other_key;
  kv::ValueView value;
};

// How one attempt ended; the value, if ok, lies where the protocol put it, until its lane's next operation.
enum class Outcome : std::uint8_t { ok, not_found, conflict, expired, link_error };
struct Got {
  Outcome ended = Outcome::not_found;
  kv::ValueView value;
};

// A protocol's tables, as one attempt of an operation sees them; a few words, taken by value.
template <typename T>
concept ReadTables =
    std::copy_constructible<T> && requires(const T tables, kv::Key key, cuckoo::KeyHash& hash,
                                           cuckoo::Place place, std::uint64_t word, Nanos read_at) {
      { tables.worker() } -> std::same_as<fabric::Worker&>;
      // Candidate slots of a key, and where they are.
      { tables.functions() } -> std::same_as<std::uint32_t>;
      { tables.hash(key) } -> std::same_as<cuckoo::KeyHash>;
      // The next READ may well go to this slot.
      { tables.expect(place) } -> std::same_as<void>;
      { tables.read_word(place) } -> std::same_as<coro::Task<WordRead>>;
      // The slot is occupied, and its filter is the key's.
      { tables.may_hold(word, hash) } -> std::same_as<bool>;
      // What the entry says that the slot's word names; `read_at` is now() of before the word was read.
      { tables.look_up(place, word, read_at, key) } -> std::same_as<coro::Task<Looked>>;
      // A committed entry at a later rank wins over an insert that is under way.
      { tables.goes_on_past_pending() } -> std::same_as<bool>;
      // A miss takes the reverse pass.
      { tables.confirms_misses() } -> std::same_as<bool>;
      // So much time has passed that words which this attempt has read may have come back (4.3.1).
      { tables.is_over_age() } -> std::same_as<bool>;
      // The reverse pass met another word than the forward pass.
      { tables.count_mismatch() } -> std::same_as<void>;
    };

// READs the slots of ranks from-1 … 0 again, but `except`; each must hold what was seen. Exact comparison: to
// let changes pass that do not concern the key is not safe beside MIGRATE (H13).
template <ReadTables Tables>
[[nodiscard]] coro::Task<Outcome> verify_slots(Tables tables, cuckoo::KeyHash* hash, SeenWords seen,
                                               std::uint32_t from, std::uint32_t except) {
  for (std::uint32_t i = from; i-- > 0;) {
    if (i == except) continue;
    const cuckoo::Place place = hash->candidate(i);
    if (i > 0) tables.expect(hash->candidate(i - 1));
    const WordRead read = co_await tables.read_word(place);
    if (!read.ok) co_return Outcome::link_error;
    if (read.word != seen[i]) {
      tables.count_mismatch();
      co_return Outcome::conflict;
    }
  }
  co_return tables.is_over_age() ? Outcome::expired : Outcome::ok;
}

// All slots were read and none holds the key: the N-1 first once more (H10c). As words are unique, those that
// are the same now have been so all the time, and when the last slot was read, the key was in none.
template <ReadTables Tables>
[[nodiscard]] coro::Task<Outcome> confirm_absent(Tables tables, cuckoo::KeyHash* hash, SeenWords seen) {
  const Outcome verified = co_await verify_slots(tables, hash, seen, tables.functions() - 1, no_rank);
  co_return verified == Outcome::ok ? Outcome::not_found : verified;
}

// One attempt.
template <ReadTables Tables>
[[nodiscard]] coro::Task<Got> get_once(Tables tables, kv::Key key) {
  fabric::Worker& worker = tables.worker();
  cuckoo::KeyHash hash = tables.hash(key);
  SeenWords seen{};
  bool has_met_pending = false;
  tables.expect(hash.candidate(0));
  co_await worker.compute(worker.costs().operation() + worker.costs().hash(key.size));
  for (std::uint32_t i = 0; i < tables.functions(); ++i) {
    if (i > 0) co_await worker.compute(worker.costs().hash(key.size));
    const cuckoo::Place place = hash.candidate(i);
    const Nanos read_at = worker.now();
    const WordRead read = co_await tables.read_word(place);
    if (!read.ok) co_return Got{Outcome::link_error, {}};
    seen[i] = read.word;
    if (!tables.may_hold(read.word, hash)) continue;
    const Looked looked = co_await tables.look_up(place, read.word, read_at, key);
    switch (looked.look) {
      case Look::other_key:
        break;
      case Look::value:
        co_return Got{Outcome::ok, looked.value};
      case Look::expired:
        co_return Got{Outcome::expired, {}};
      case Look::conflict:
        co_return Got{Outcome::conflict, {}};
      case Look::failed:
        co_return Got{Outcome::link_error, {}};
      case Look::pending:
        if (!tables.goes_on_past_pending()) co_return Got{Outcome::conflict, {}};
        has_met_pending = true;
        break;
    }
  }
  if (has_met_pending) co_return Got{Outcome::conflict, {}};
  if (!tables.confirms_misses()) co_return Got{Outcome::not_found, {}};
  const Outcome confirmed = co_await confirm_absent(tables, &hash, seen);
  co_return Got{confirmed, {}};
}

}  // namespace loch::onesided
