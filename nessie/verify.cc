// Makes the reverse pass: READs slots again, last candidate first, and compares their words with those seen
// before.
#include "nessie/verify.h"

#include "nessie/get.h"

namespace loch::nessie {

coro::Task<Attempt> verify_slots(Access access, cuckoo::KeyHash* hash, SeenWords seen, std::uint32_t from,
                                 std::uint32_t except) {
  const onesided::Outcome ended = co_await onesided::verify_slots(Tables{access}, hash, seen, from, except);
  co_return attempt_of(ended);
}

coro::Task<Attempt> confirm_absent(Access access, cuckoo::KeyHash* hash, SeenWords seen) {
  const onesided::Outcome ended = co_await onesided::confirm_absent(Tables{access}, hash, seen);
  co_return attempt_of(ended);
}

}  // namespace loch::nessie
