// READ and CAS of index words, awaited by polling a bit of the word (its watermark) or by completion, and
// repeated over a new connection after an error.
#include "nessie/index.h"

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/arrival.h"
#include "nessie/reach.h"

namespace loch::nessie {
namespace {

// Empties a slot whose word names memory that was declared lost, and returns the word that the slot holds
// afterwards. No owner maintains such a word, so the first operation that reads the word empties the slot;
// from then on all operations agree that the key is absent.
coro::Task<WordRead> bury(Access access, cuckoo::Place place, Word word) {
  LOCH_PROBE("nessie.lost-word-buried");
  const WordFormat& format = access.settings().format;
  const Word emptied = format.emptied(format.committed(word));
  if (access.lane.has(Flaw::lost_words_stay)) co_return WordRead{.ok = true, .word = emptied};
  const Swap swap = co_await swap_index(access, place, word, emptied, Proof::none);
  if (swap.done()) {
    ++access.own().counters.lost_words_buried;
    co_return WordRead{.ok = true, .word = emptied};
  }
  // Another operation changed the slot first, or the CAS ended in an error and the slot was read: `swap.seen`
  // is the slot's word. If that word names lost memory too (a rollback may have restored such a word), a
  // later attempt empties the slot.
  const bool is_known = swap.outcome == Swap::Outcome::lost || swap.seen == emptied;
  co_return WordRead{.ok = is_known && !names_lost_memory(access.lane, swap.seen), .word = swap.seen};
}

// A CAS that ended in an error may have been executed (H17 of docs/protocols/nessie.md): learns its outcome
// by reading the slot over a new connection, where the old request can no longer take effect. If the slot
// holds `expected`, the CAS did not take place; what any other word proves depends on who can write that word
// (case A1 in docs/protocols/nessie.md).
coro::Task<Swap> settle_swap(Access access, cuckoo::Place place, Word expected, Word desired, Proof proof) {
  ++access.own().counters.ambiguous_swaps;
  const bool is_back = co_await reconnect(&access.lane, access.own().shares[place.node].index.node);
  if (!is_back) {
    LOCH_PROBE("nessie.cas-unreachable");
    co_return Swap{Swap::Outcome::unknown, 0};
  }
  const WordRead now = co_await read_index(access, place);
  if (!now.ok) co_return Swap{Swap::Outcome::unknown, 0};
  if (now.word == expected) co_return Swap{Swap::Outcome::lost, now.word};
  const bool is_there = now.word == desired;
  switch (access.settings().rules.desired_proves && is_there ? Proof::desired_unique : proof) {
    case Proof::none:
      break;
    case Proof::desired_stays:
      if (!is_there) co_return Swap{Swap::Outcome::lost, now.word};
      LOCH_PROBE("nessie.cas-had-happened");
      co_return Swap{Swap::Outcome::swapped, expected};
    case Proof::desired_unique:
      if (is_there) co_return Swap{Swap::Outcome::swapped, expected};
      LOCH_PROBE("nessie.cas-overwritten-or-not");
      break;
    case Proof::expected_ours:
      LOCH_PROBE("nessie.own-word-had-gone");
      co_return Swap{Swap::Outcome::swapped, expected};
  }
  co_return Swap{Swap::Outcome::unknown, now.word};
}

// Mutant cpu-cas-on-index: a compare-and-swap by the CPU, which is not atomic against CASes of the NIC.
coro::Task<Swap> swap_by_cpu(Access access, cuckoo::Place place, Word expected, Word desired) {
  std::byte* slot = access.node().index->at(place.slot * 8);
  if (access.stats != nullptr) ++access.stats->index_cas;
  const Word seen = fabric::load_word(slot);
  if (seen != expected) co_return Swap{Swap::Outcome::lost, seen};
  constexpr Nanos between_load_and_store = 200;
  co_await access.worker().spin_until(access.worker().now() + between_load_and_store);
  fabric::store_word_release(slot, desired);
  co_return Swap{Swap::Outcome::swapped, seen};
}

// Mutant unlock-by-write: an unconditional WRITE to a word that other clients CAS.
coro::Task<bool> overwrite_index(Access access, cuckoo::Place place, Word word) {
  const IndexShare& share = access.own().shares[place.node];
  const fabric::LocalSlice source{access.node().words, access.lane.word_at(lane_flush)};
  fabric::store_word_release(access.node().words->at(source.offset), word);
  const fabric::Completion done =
      co_await access.worker().write(share.index, share.base + place.slot * 8, source, 8, access.stats);
  co_return done.ok();
}

}  // namespace

std::optional<fabric::WorkRequest> WordReading::request() {
  const IndexShare& share = access.own().shares[place.node];
  if (share.is_void) [[unlikely]]
    return std::nullopt;
  peer = share.index.node;
  if (access.stats != nullptr) ++access.stats->index_read;
  const fabric::LocalSlice to{access.node().words, access.lane.word_at(lane_index)};
  return fabric::one_sided(fabric::Verb::read, share.index, share.base + place.slot * 8, to, 8, access.stats);
}

WordRead WordReading::landed() const {
  const Word word = fabric::load_word(access.node().words->at(access.lane.word_at(lane_index)));
  // A word without the watermark bit, which every stored word has, was never initialised: the node came back
  // with empty memory.
  if (!WordFormat::is_stored(word)) [[unlikely]] {
    LOCH_PROBE("nessie.index-not-laid-out");
    return {};
  }
  const bool is_lost = access.own().has_losses && names_lost_memory(access.lane, word);
  return {.ok = !is_lost, .is_unsettled = is_lost, .peer = peer, .word = word};
}

bool WordRequest::await_ready() {
  const Access& access = reading_.access;
  const Settings& settings = access.settings();
  if (settings.rules.cpu_on_index && reading_.place.node == access.node().node) {
    result_ = {.ok = true, .word = fabric::load_word(access.node().index->at(reading_.place.slot * 8))};
    return true;
  }
  const std::optional<fabric::WorkRequest> request = reading_.request();
  if (!request) [[unlikely]]
    return true;
  transfer_.emplace(access.worker(), *request, [this] { return reading_.landing(read_at_); });
  return transfer_->await_ready();
}

WordRead WordRequest::await_resume() const {
  if (!transfer_) return result_;
  const onesided::Ended ended = transfer_->await_resume();
  if (ended.ok()) [[likely]]
    return reading_.landed();
  return {.is_unsettled = true, .ended = ended, .peer = reading_.peer};
}

coro::Task<WordRead> settle_word(Access access, cuckoo::Place place, WordRead read) {
  WordReading reading{{.access = access, .peer = read.peer}, place};
  if (!read.ended.ok()) {
    const bool has_come = co_await onesided::try_again(reading, read.ended);
    if (!has_come) co_return WordRead{};
    read = reading.landed();
  }
  if (!read.is_unsettled) co_return read;
  co_return co_await bury(access, place, read.word);
}

coro::Task<WordRead> read_index(Access access, cuckoo::Place place) {
  const WordRead read = co_await WordRequest(access, place, access.worker().now());
  if (!read.is_unsettled) co_return read;
  co_return co_await settle_word(access, place, read);
}

coro::Task<Swap> swap_index(Access access, cuckoo::Place place, Word expected, Word desired, Proof proof) {
  const Settings& settings = access.settings();
  NodeState& node = access.node();
  if (settings.rules.cpu_on_index && place.node == node.node) {
    co_return co_await swap_by_cpu(access, place, expected, desired);
  }
  const fabric::LocalSlice landing{node.words, access.lane.word_at(lane_swap)};
  constexpr int most_tries = 4;
  for (int attempt = 0; attempt < most_tries; ++attempt) {
    const IndexShare& share = access.own().shares[place.node];
    if (share.is_void) [[unlikely]] {
      // As far as this worker knows, the slot's share of the index (the part of one node) lies on no node, so
      // the CAS is reported as lost. But the share may have been initialised again at its old place, and this
      // operation may have linked its own word there since: if `expected` is the operation's own word, the
      // outcome is unknown.
      co_return Swap{proof == Proof::expected_ours ? Swap::Outcome::unknown : Swap::Outcome::lost, 0};
    }
    const fabric::NodeId peer = share.index.node;
    fabric::WorkRequest request = fabric::one_sided(fabric::Verb::cas, share.index,
                                                    share.base + place.slot * 8, landing, 8, access.stats);
    request.compare = expected;
    request.operand = desired;
    if (access.stats != nullptr) ++access.stats->index_cas;
    const onesided::Ended ended = co_await onesided::Transfer(access.worker(), request, [&] {
      return landing_at(access.lane, node.words, landing.offset,
                        settings.completion == CompletionBy::watermark, access.worker().now());
    });
    fabric::WcStatus status = ended.status;
    if (!ended.is_settled()) [[unlikely]] {
      const fabric::WcStatus settled = co_await settle(&access.lane, ended, peer);
      status = settled;
    }
    if (status == fabric::WcStatus::success) {
      const Word seen = fabric::load_word(node.words->at(landing.offset));
      co_return Swap{seen == expected ? Swap::Outcome::swapped : Swap::Outcome::lost, seen};
    }
    const Swap settled = co_await settle_swap(access, place, expected, desired, proof);
    const bool did_not_happen = settled.outcome == Swap::Outcome::lost && settled.seen == expected;
    if (!did_not_happen) co_return settled;
    LOCH_PROBE("nessie.cas-did-not-happen");
  }
  LOCH_PROBE("nessie.cas-tries-used-up");
  co_return Swap{Swap::Outcome::unknown, 0};
}

coro::Task<Swap> take_back(Access access, cuckoo::Place place, Word own, Word to, Proof proof) {
  if (access.settings().rules.unlocks_by_write) {
    const bool written = co_await overwrite_index(access, place, to);
    co_return Swap{written ? Swap::Outcome::swapped : Swap::Outcome::unknown, own};
  }
  co_return co_await swap_index(access, place, own, to, proof);
}

coro::Task<void> bury_restored(Access access, cuckoo::Place place, Word word) {
  if (!access.own().has_losses || !names_lost_memory(access.lane, word)) co_return;
  const WordRead buried = co_await bury(access, place, word);
  static_cast<void>(buried);  // if the CAS fails, the next operation that reads the word empties the slot
}

}  // namespace loch::nessie
