// GET (2017, 4.2.1 and 4.3.2): a forward pass over the candidate slots in rank order, and, if the key is in
// none of them, a reverse pass that confirms it.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// How one attempt ended; the value, if ok, lies in the lane's landing buffer or in Lane::pinned, until the
// lane's next operation.
struct Got {
  Attempt ended = Attempt::not_found;
  kv::ValueView value;
};
[[nodiscard]] coro::Task<Got> get_once(Access access, kv::Key key);

// The result of comparing the entry that a slot's word names with a key.
enum class Look : std::uint8_t {
  other_key,
  value,     // committed, and here is its value
  pending,   // an insert that is under way: there is no version before it
  conflict,  // a concurrent operation on the key
  expired,   // the attempt is older than E: what was read may be another entry's
  failed,    // the entry cannot be read
};
struct Looked {
  Look look = Look::other_key;
  kv::ValueView value;
};
// The word cache's answer, if it has one; a hit lives until E after the word was read (2017, 4.1.3).
// `read_at`: now() before that. What a value lies in is pinned in Lane::pinned.
[[nodiscard]] std::optional<Looked> look_in_cache(Access access, Word word, Nanos read_at, kv::Key key);

}  // namespace loch::nessie
