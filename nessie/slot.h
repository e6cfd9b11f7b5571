// Classifies a slot's word for an operation on a key: whose entry it names, and whether the slot may be
// written.
#pragma once

#include "nessie/get.h"
#include "nessie/index.h"

namespace loch::nessie {

// Whose entry the slot names. The last two are no answer: the attempt ends.
enum class Holder : std::uint8_t { other_key, committed, pending, expired, failed };

// Whether the word names the key's entry, by the cache or a READ of the entry's header. `read_at`: now()
// before the word was read.
[[nodiscard]] coro::Task<Holder> who_holds(Access access, kv::Key key, Word word, Nanos read_at);

// One slot, read for the key.
struct SlotSeen {
  // Not ok: the word, or its entry, could not be read, and the attempt ends like this.
  Attempt ended = Attempt::ok;
  Word word = 0;                      // once it could
  Holder holder = Holder::other_key;  // other_key also for an EMPTY slot
};
// READs the slot, and its entry if the filter says that it may be the key's.
[[nodiscard]] coro::Task<SlotSeen> look_at_slot(Access access, cuckoo::Place place, kv::Key key,
                                                cuckoo::KeyHash* hash);

// H12: a slot that a MIGRATE emptied counts as occupied until its copy is committed, so that the evidence by
// which scrub decides is not overwritten. The last two are no answer: the attempt ends.
enum class Reserve : std::uint8_t { free, reserved, expired, failed };
[[nodiscard]] coro::Task<Reserve> is_reserved(Access access, Word word);

// How an attempt ends that got no answer; none for an answer.
[[nodiscard]] constexpr std::optional<Attempt> ended_by(Holder holder) {
  if (holder == Holder::expired) return Attempt::expired;
  return holder == Holder::failed ? std::optional(Attempt::link_error) : std::nullopt;
}
[[nodiscard]] constexpr std::optional<Attempt> ended_by(Reserve reserve) {
  if (reserve == Reserve::expired) return Attempt::expired;
  return reserve == Reserve::failed ? std::optional(Attempt::link_error) : std::nullopt;
}

}  // namespace loch::nessie
