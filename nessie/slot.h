// Classifies a slot's word for an operation on a key: whose entry it names, and whether the slot may be
// written.
#pragma once

#include "nessie/get.h"
#include "nessie/index.h"

namespace loch::nessie {

// Whose entry the index slot names. `expired` and `failed` mean that the holder could not be learned and the
// attempt ends.
enum class Holder : std::uint8_t { other_key, committed, pending, expired, failed };

// Finds out whether the word names the key's entry, from the cache or by a READ of the entry's header.
// `read_at` is now() before the word was read.
[[nodiscard]] coro::Task<Holder> who_holds(Access access, kv::Key key, Word word, Nanos read_at);

// The result of reading one index slot for a key.
struct SlotSeen {
  // How the attempt ends if the word, or its entry, could not be read; else ok.
  Attempt ended = Attempt::ok;
  Word word = 0;                      // the slot's word, if it could be read
  Holder holder = Holder::other_key;  // whose entry the index slot names; other_key also for an EMPTY slot
};
// READs the index slot's word and, if the filter bits match the key's, the header of its entry.
[[nodiscard]] coro::Task<SlotSeen> look_at_slot(Access access, cuckoo::Place place, kv::Key key,
                                                cuckoo::KeyHash* hash);

// Whether an EMPTY slot is reserved (repair of dead clients, H12 in docs/protocols/nessie.md): a slot that a
// MIGRATE (move of a key) emptied stays reserved until its copy is committed, because the repair of a dead
// client (scrub) decides by the slot's tag whether the client's copy is to be committed. `expired` and
// `failed` mean that this could not be found out and the attempt ends.
enum class Reserve : std::uint8_t { free, reserved, expired, failed };
[[nodiscard]] coro::Task<Reserve> is_reserved(Access access, Word word);

// The result with which the attempt ends if `holder` is `expired` or `failed`; none for any other value.
[[nodiscard]] constexpr std::optional<Attempt> ended_by(Holder holder) {
  if (holder == Holder::expired) return Attempt::expired;
  return holder == Holder::failed ? std::optional(Attempt::link_error) : std::nullopt;
}
[[nodiscard]] constexpr std::optional<Attempt> ended_by(Reserve reserve) {
  if (reserve == Reserve::expired) return Attempt::expired;
  return reserve == Reserve::failed ? std::optional(Attempt::link_error) : std::nullopt;
}

}  // namespace loch::nessie
