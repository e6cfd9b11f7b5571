// The reverse pass: slots are READ again and compared with the words that were seen.
#include "nessie/verify.h"

#include "nessie/index.h"

namespace loch::nessie {

coro::Task<Attempt> verify_slots(Access access, cuckoo::KeyHash* hash, SeenWords seen, std::uint32_t from,
                                 std::uint32_t except) {
  for (std::uint32_t i = from; i-- > 0;) {
    if (i == except) continue;
    const cuckoo::Place place = hash->candidate(i);
    if (i > 0) access.lane.expect(hash->candidate(i - 1));
    const WordRead read = co_await read_index(access, place);
    if (!read.ok) co_return Attempt::link_error;
    if (read.word != seen[i]) {
      ++access.own().counters.reverse_mismatches;
      co_return Attempt::conflict;
    }
  }
  co_return access.is_over_age() ? Attempt::expired : Attempt::ok;
}

coro::Task<Attempt> confirm_absent(Access access, cuckoo::KeyHash* hash, SeenWords seen) {
  const std::uint32_t all_but_last = access.settings().functions() - 1;
  const Attempt verified = co_await verify_slots(access, hash, seen, all_but_last, no_rank);
  co_return verified == Attempt::ok ? Attempt::not_found : verified;
}

}  // namespace loch::nessie
