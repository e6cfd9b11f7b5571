// GET (Nessie, 2017, 4.2.1 and 4.3.2): a forward pass over the key's candidate slots and, if none holds the
// key, a reverse pass that confirms its absence.
#pragma once

#include "common/onesided/get.h"
#include "nessie/index.h"
#include "nessie/lane.h"

namespace loch::nessie {

using onesided::Got;
using onesided::Look;
using onesided::Looked;

// The index slots and entries of Nessie as the GET of common/onesided/get.h reads them.
struct Tables {
  Access access;

  [[nodiscard]] fabric::Worker& worker() const { return access.worker(); }
  [[nodiscard]] std::uint32_t functions() const { return access.settings().functions(); }
  [[nodiscard]] cuckoo::KeyHash hash(kv::Key key) const {
    return access.settings().family.hash({key.data, key.size});
  }
  void expect(const cuckoo::Place& place) const { access.lane.expect(place); }
  [[nodiscard]] WordRequest read_word(cuckoo::Place place, Nanos read_at) const {
    return {access, place, read_at};
  }
  [[nodiscard]] coro::Task<onesided::WordRead> settle_word(cuckoo::Place place,
                                                           onesided::WordRead read) const {
    return nessie::settle_word(access, place, read);
  }
  [[nodiscard]] bool may_hold(Word word, cuckoo::KeyHash& hash) const {
    return holds_filter(access.settings(), word, hash);
  }
  [[nodiscard]] coro::Task<Looked> look_up(cuckoo::Place place, Word word, Nanos read_at, kv::Key key) const;
  [[nodiscard]] bool goes_on_past_pending() const { return access.settings().rules.get_continues; }
  [[nodiscard]] bool confirms_misses() const { return access.settings().rules.get_verifies; }
  [[nodiscard]] bool is_over_age() const { return access.is_over_age(); }
  void count_mismatch() const { ++access.own().counters.reverse_mismatches; }
};

[[nodiscard]] Attempt attempt_of(onesided::Outcome outcome);

// Looks up the entry that the word names in the node's cache. `read_at`: now() before the READ of the word; a
// cached entry is valid for one expiry period from then on (Nessie, 2017, 4.1.3). Lane::pinned (a cache
// entry) keeps a value that was found from being evicted.
[[nodiscard]] std::optional<Looked> look_in_cache(Access access, Word word, Nanos read_at, kv::Key key);

}  // namespace loch::nessie
