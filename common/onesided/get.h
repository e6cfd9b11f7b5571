// A GET by READs of a cuckoo index and of the entries that its words name (Nessie, 2017, 4.2.1): a forward
// pass over the key's candidate slots in rank order, and, if none holds the key, a reverse pass that READs
// the slots again to confirm that the key is absent. The protocol supplies the tables.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>

#include "common/coro/task.h"
#include "common/cuckoo/hash_family.h"
#include "common/fabric/fabric.h"
#include "common/kv/protocol.h"
#include "common/onesided/transfer.h"

namespace loch::onesided {

// The result of reading a slot's word.
struct WordRead {
  bool ok = false;  // whether the READ succeeded; if not, the slot's content is unknown
  // true: the result is not final, because the READ failed or its word needs further steps; settle_word()
  // takes these steps, for which it needs `ended` and `peer`
  bool is_unsettled = false;
  Ended ended;
  fabric::NodeId peer = 0;
  std::uint64_t word = 0;
};

// The words of a key's candidate slots by rank, as an operation last read or wrote them.
using SeenWords = std::array<std::uint64_t, cuckoo::max_functions>;
constexpr std::uint32_t no_rank = ~std::uint32_t{0};

// What is known about a key after looking at the entry that a slot's word names.
enum class Look : std::uint8_t {
  other_key,
  value,     // the entry is committed and has the key; its value was read
  pending,   // the entry has the key but is not committed, and there is no earlier version to read
  conflict,  // a concurrent operation changed the key's entries meanwhile
  expired,   // too much time has passed, and the entry that was read may have been reused
  failed,    // the entry cannot be read
};
struct Looked {
  Look look = Look::other_key;
  kv::ValueView value;
};

// How one attempt of a GET ended. If ok, the value stays valid until the next operation of the same slot of
// the client's window.
enum class Outcome : std::uint8_t { ok, not_found, conflict, expired, link_error };
struct Got {
  Outcome ended = Outcome::not_found;
  kv::ValueView value;
};

// What a GET requires of a protocol's tables in one attempt. Objects of such a type are small and passed by
// value.
template <typename T>
concept ReadTables = std::copy_constructible<T> &&
                     requires(const T tables, kv::Key key, cuckoo::KeyHash& hash, cuckoo::Place place,
                              std::uint64_t word, Nanos read_at, WordRead read) {
                       { tables.worker() } -> std::same_as<fabric::Worker&>;
                       // Number of candidate slots of a key.
                       { tables.functions() } -> std::same_as<std::uint32_t>;
                       { tables.hash(key) } -> std::same_as<cuckoo::KeyHash>;
                       // Names the slot that may be READ next, so that the protocol can prefetch into the
                       // CPU's cache what a READ of that slot needs.
                       { tables.expect(place) } -> std::same_as<void>;
                       // READs the slot's word: an awaitable that gives a WordRead, so that the common case
                       // needs no coroutine of its own. `read_at` is the present time, now().
                       tables.read_word(place, read_at);
                       // Gives the final WordRead if the one that read_word() gave has is_unsettled.
                       { tables.settle_word(place, read) } -> std::same_as<coro::Task<WordRead>>;
                       // Whether the slot is occupied and the filter in its word matches the key's hash.
                       { tables.may_hold(word, hash) } -> std::same_as<bool>;
                       // Looks at the entry that the slot's word names; `read_at` is a time (now()) before
                       // the word was READ.
                       { tables.look_up(place, word, read_at, key) } -> std::same_as<coro::Task<Looked>>;
                       // Whether the search goes on after an uncommitted insert of the key, because a
                       // committed entry at a later rank takes precedence.
                       { tables.goes_on_past_pending() } -> std::same_as<bool>;
                       // Whether a GET that found no entry has to confirm this by READing the slots again in
                       // reverse order.
                       { tables.confirms_misses() } -> std::same_as<bool>;
                       // Whether the attempt has taken so long that index words which it has read may have
                       // been used again for other entries (Nessie, 2017, 4.3.1).
                       { tables.is_over_age() } -> std::same_as<bool>;
                       // Called if a slot that is READ again to confirm a miss has another word than before.
                       { tables.count_mismatch() } -> std::same_as<void>;
                     };

// READs the key's slots of ranks `from` - 1 down to 0 again, except rank `except`. Each must still hold the
// word that the operation saw there. Words are compared exactly, because ignoring changes that do not concern
// the key would not be safe with concurrent MIGRATEs, which move keys between slots (known fault H13 of
// Nessie, docs/protocols/nessie.md).
template <ReadTables Tables>
[[nodiscard]] coro::Task<Outcome> verify_slots(Tables tables, cuckoo::KeyHash* hash, SeenWords seen,
                                               std::uint32_t from, std::uint32_t except) {
  for (std::uint32_t i = from; i-- > 0;) {
    if (i == except) continue;
    const cuckoo::Place place = hash->candidate(i);
    if (i > 0) tables.expect(hash->candidate(i - 1));
    const Nanos read_at = tables.worker().now();
    WordRead read = co_await tables.read_word(place, read_at);
    if (read.is_unsettled) [[unlikely]] {
      const WordRead settled = co_await tables.settle_word(place, read);
      read = settled;
    }
    if (!read.ok) co_return Outcome::link_error;
    if (read.word != seen[i]) {
      tables.count_mismatch();
      co_return Outcome::conflict;
    }
  }
  co_return tables.is_over_age() ? Outcome::expired : Outcome::ok;
}

// Confirms a miss after all slots were read: reads all slots but the last one again. Since words are unique,
// a slot with the same word has not changed in between, so that none held the key at the time when the last
// slot was read.
template <ReadTables Tables>
[[nodiscard]] coro::Task<Outcome> confirm_absent(Tables tables, cuckoo::KeyHash* hash, SeenWords seen) {
  const Outcome verified = co_await verify_slots(tables, hash, seen, tables.functions() - 1, no_rank);
  co_return verified == Outcome::ok ? Outcome::not_found : verified;
}

// Makes one attempt of a GET.
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
    WordRead read = co_await tables.read_word(place, read_at);
    if (read.is_unsettled) [[unlikely]] {
      const WordRead settled = co_await tables.settle_word(place, read);
      read = settled;
    }
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
