// READ and CAS of index words, the only accesses that operations make to the index (Nessie, 2017, 4.1.2), and
// how their errors are resolved.
#pragma once

#include <optional>

#include "common/onesided/get.h"
#include "nessie/arrival.h"
#include "nessie/lane.h"

namespace loch::nessie {

using onesided::WordRead;

// READs the word of a slot; a failed READ is repeated once over a new connection. Not ok if the node cannot
// be reached, the slot's share of the index lies on no node, or the node's memory was never initialised. A
// word that names lost memory is never returned: the slot is emptied first, so that all operations agree on
// when the key became absent (lost nodes, case A4 in docs/protocols/nessie.md).
[[nodiscard]] coro::Task<WordRead> read_index(Access access, cuckoo::Place place);

// A READ of an index slot's word, in the form in which onesided::try_again() repeats it after an error.
struct WordReading : LaneReading {
  cuckoo::Place place;

  [[nodiscard]] std::optional<fabric::WorkRequest> request();
  [[nodiscard]] std::optional<onesided::Landing> landing(Nanos now) const {
    return landing_at(access.lane, access.node().words, access.lane.word_at(lane_index),
                      access.settings().completion == CompletionBy::watermark, now);
  }
  [[nodiscard]] std::optional<onesided::Landing> landing() const { return landing(access.worker().now()); }
  // The result for the word that the READ has fetched; is_unsettled if the word names lost memory, so that
  // settle_word() has to follow.
  [[nodiscard]] WordRead landed() const;
};

// Awaits one try to READ an index slot's word, without a coroutine of its own. If the result is unsettled
// (the READ failed, or the word names lost memory), settle_word() has to follow; the two together do what
// read_index() does. `read_at` is now().
class WordRequest {
 public:
  WordRequest(Access access, cuckoo::Place place, Nanos read_at)
      : reading_{{.access = access}, place}, read_at_(read_at) {}
  WordRequest(const WordRequest&) = delete;
  bool await_ready();
  void await_suspend(std::coroutine_handle<> waiter) { transfer_->await_suspend(waiter); }
  [[nodiscard]] WordRead await_resume() const;

 private:
  WordReading reading_;
  Nanos read_at_;
  WordRead result_;  // the result if no READ had to be posted
  std::optional<onesided::Transfer> transfer_;
};
[[nodiscard]] coro::Task<WordRead> settle_word(Access access, cuckoo::Place place, WordRead read);

struct Swap {
  enum class Outcome : std::uint8_t { swapped, lost, unknown };
  Outcome outcome = Outcome::lost;
  Word seen = 0;  // the word that the index slot held instead of `expected`, if the CAS failed
  [[nodiscard]] bool done() const { return outcome == Outcome::swapped; }
};

// What a READ of the index slot proves about a CAS that ended in an error, if the slot no longer holds
// `expected` (docs/protocols/nessie.md: H17 is such a CAS, A1 a wrong conclusion).
enum class Proof : std::uint8_t {
  none,  // the slot's word proves nothing, because other operations may write `desired` too
  // only this operation writes `desired`, and no other operation replaces it: the CAS took place if and only
  // if the index slot holds `desired`
  desired_stays,
  // only this operation writes `desired`, but other operations may have replaced it: if the index slot holds
  // `desired`, the CAS took place
  desired_unique,
  // `expected` is this operation's own word, which no other operation changes: if the index slot no longer
  // holds it, the CAS took place
  expected_ours,
};

// CAS of the index slot from `expected` to `desired`. After an error the slot is read; `proof` says what the
// slot's word proves. A CAS that was not executed is posted again. The result is `unknown` if the outcome
// cannot be learned.
[[nodiscard]] coro::Task<Swap> swap_index(Access access, cuckoo::Place place, Word expected, Word desired,
                                          Proof proof);

// Takes an entry out of the index: changes its index slot from `own` to `to` by swap_index(), or by a WRITE
// in the known-bad variant unlock-by-write.
[[nodiscard]] coro::Task<Swap> take_back(Access access, cuckoo::Place place, Word own, Word to, Proof proof);

// To be called after a rollback has restored `word` in its index slot. If the memory that the word names was
// declared lost meanwhile, empties the slot, because perhaps no later operation reads the slot and empties
// it.
[[nodiscard]] coro::Task<void> bury_restored(Access access, cuckoo::Place place, Word word);

}  // namespace loch::nessie
