// The steps over the fabric: READ and CAS of index words, completions by watermark or by completion
// queue entry, and what follows an error.
#include <utility>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "common/rpc/landing.h"
#include "nessie/session.h"

namespace loch::nessie {
namespace {

fabric::WorkRequest one_sided(fabric::Verb verb, const fabric::RemoteRegion& remote, std::uint64_t offset,
                              fabric::LocalSlice local, std::uint32_t length, fabric::OpStats* stats) {
  fabric::WorkRequest request;
  request.verb = verb;
  request.peer = remote.node;
  request.remote = remote;
  request.remote_offset = offset;
  request.local = local;
  request.length = length;
  request.stats = stats;
  return request;
}

}  // namespace

// No coroutine of its own: it is awaited several times in every operation.
fabric::Worker::WatchOne Session::post_watched(fabric::WorkRequest& request, fabric::Region* region,
                                               std::uint64_t landed) {
  const rpc::Landing landing{.region = region,
                             .word_at = landed,
                             .mark = watermark_bit,
                             .until = worker_.now() + settings_.expiry,
                             .flush = {}};
  return rpc::post_watched(worker_, request, landing);
}

coro::Task<fabric::WcStatus> Session::settle(fabric::WatchOutcome outcome, fabric::NodeId peer) {
  if (outcome != fabric::WatchOutcome::link_down) ++own_.counters.watch_timeouts;
  const fabric::LocalSlice scratch{node_.words, word_at(lane_flush)};
  const fabric::WorkRequest flush =
      one_sided(fabric::Verb::read, own_.peers[peer].data, 0, scratch, 8, nullptr);
  co_return co_await rpc::settle(&worker_, outcome, flush);
}

coro::Task<Session::WordRead> Session::read_index(cuckoo::Place place) {
  if (settings_.rules.cpu_on_index && place.node == node_.node) {
    const Word word = fabric::load_word(node_.index->at(place.slot * 8));
    co_return WordRead{true, word};
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    const fabric::LocalSlice landing{node_.words, word_at(lane_index)};
    const IndexShare& share = own_.shares[place.node];
    if (share.is_void) [[unlikely]]
      break;
    const fabric::NodeId peer = share.index.node;
    fabric::WorkRequest request =
        one_sided(fabric::Verb::read, share.index, share.base + place.slot * 8, landing, 8, stats_);
    if (stats_ != nullptr) ++stats_->index_read;
    fabric::WcStatus status = fabric::WcStatus::success;
    if (settings_.completion == CompletionBy::watermark) {
      const fabric::WatchOutcome outcome = co_await post_watched(request, node_.words, landing.offset);
      if (outcome != fabric::WatchOutcome::ready) {
        const fabric::WcStatus settled = co_await settle(outcome, peer);
        status = settled;
      }
    } else {
      const fabric::Completion done = co_await worker_.execute(request);
      status = done.status;
    }
    if (status == fabric::WcStatus::success) {
      const Word word = fabric::load_word(node_.words->at(landing.offset));
      // Memory without a watermark is an index that nobody laid out: its node came back empty.
      if (!WordFormat::is_stored(word)) [[unlikely]] {
        LOCH_PROBE("nessie.index-not-laid-out");
        co_return WordRead{};
      }
      if (own_.has_losses && names_lost_memory(word)) [[unlikely]]
        co_return co_await bury(place, word);
      co_return WordRead{true, word};
    }
    const bool is_back = co_await reconnect(peer);
    if (!is_back) break;
  }
  co_return WordRead{};
}

// The word names memory that was declared lost, which makes it nobody's: whoever meets it empties the slot
// before going on, so that all agree on when the key went.
coro::Task<Session::WordRead> Session::bury(cuckoo::Place place, Word word) {
  LOCH_PROBE("nessie.lost-word-buried");
  const Word emptied = settings_.format.emptied(settings_.format.committed(word));
  if (has(Flaw::lost_words_stay)) co_return WordRead{true, emptied};
  const Swap swap = co_await swap_index(place, word, emptied, Proof::none);
  if (swap.done()) {
    ++own_.counters.lost_words_buried;
    co_return WordRead{true, emptied};
  }
  // Somebody else was first, or asked the slot after an error: what it holds now is the answer, unless it
  // is another such word (a rollback may have brought it back), which a later attempt meets.
  const bool is_known = swap.outcome == Swap::Outcome::lost || swap.seen == emptied;
  co_return WordRead{is_known && !names_lost_memory(swap.seen), swap.seen};
}

// What an own word had replaced, and is back in its slot, may have been declared lost meanwhile. Nobody need
// ever meet it again: the one who puts it back empties it.
coro::Task<void> Session::bury_restored(cuckoo::Place place, Word word) {
  if (!own_.has_losses || !names_lost_memory(word)) co_return;
  const WordRead buried = co_await bury(place, word);
  static_cast<void>(buried);  // if it fails, whoever meets the word empties it
}

coro::Task<Session::Swap> Session::swap_index(cuckoo::Place place, Word expected, Word desired, Proof proof) {
  if (settings_.rules.cpu_on_index && place.node == node_.node) {
    co_return co_await swap_by_cpu(place, expected, desired);
  }
  const fabric::LocalSlice landing{node_.words, word_at(lane_swap)};
  constexpr int most_tries = 4;
  for (int attempt = 0; attempt < most_tries; ++attempt) {
    const IndexShare& share = own_.shares[place.node];
    if (share.is_void) [[unlikely]] {
      // What it held is gone; but an own word may be in it as it was laid out anew since, where it was.
      co_return Swap{proof == Proof::expected_ours ? Swap::Outcome::unknown : Swap::Outcome::lost, 0};
    }
    const fabric::NodeId peer = share.index.node;
    fabric::WorkRequest request =
        one_sided(fabric::Verb::cas, share.index, share.base + place.slot * 8, landing, 8, stats_);
    request.compare = expected;
    request.operand = desired;
    if (stats_ != nullptr) ++stats_->index_cas;
    fabric::WcStatus status = fabric::WcStatus::success;
    if (settings_.completion == CompletionBy::watermark) {
      const fabric::WatchOutcome outcome = co_await post_watched(request, node_.words, landing.offset);
      if (outcome != fabric::WatchOutcome::ready) {
        const fabric::WcStatus settled = co_await settle(outcome, peer);
        status = settled;
      }
    } else {
      const fabric::Completion done = co_await worker_.execute(request);
      status = done.status;
    }
    if (status == fabric::WcStatus::success) {
      const Word seen = fabric::load_word(node_.words->at(landing.offset));
      co_return Swap{seen == expected ? Swap::Outcome::swapped : Swap::Outcome::lost, seen};
    }
    const Swap settled = co_await settle_swap(place, expected, desired, proof);
    const bool did_not_happen = settled.outcome == Swap::Outcome::lost && settled.seen == expected;
    if (!did_not_happen) co_return settled;
    LOCH_PROBE("nessie.cas-did-not-happen");
  }
  LOCH_PROBE("nessie.cas-tries-used-up");
  co_return Swap{Swap::Outcome::unknown, 0};
}

// H17: the outcome of a CAS that ended in an error is asked of the slot. Once the connection is a
// new one, the old request cannot take effect any more. `expected` in the slot means that it did not;
// what any other word means depends on who can write it (A1).
coro::Task<Session::Swap> Session::settle_swap(cuckoo::Place place, Word expected, Word desired,
                                               Proof proof) {
  ++own_.counters.ambiguous_swaps;
  const bool is_back = co_await reconnect(own_.shares[place.node].index.node);
  if (!is_back) {
    LOCH_PROBE("nessie.cas-unreachable");
    co_return Swap{Swap::Outcome::unknown, 0};
  }
  const WordRead now = co_await read_index(place);
  if (!now.ok) co_return Swap{Swap::Outcome::unknown, 0};
  if (now.word == expected) co_return Swap{Swap::Outcome::lost, now.word};
  const bool is_there = now.word == desired;
  switch (settings_.rules.desired_proves && is_there ? Proof::desired_unique : proof) {
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

// Mutant cpu-cas-on-index: atomic against nothing that the NIC does.
coro::Task<Session::Swap> Session::swap_by_cpu(cuckoo::Place place, Word expected, Word desired) {
  std::byte* slot = node_.index->at(place.slot * 8);
  if (stats_ != nullptr) ++stats_->index_cas;
  const Word seen = fabric::load_word(slot);
  if (seen != expected) co_return Swap{Swap::Outcome::lost, seen};
  constexpr Nanos between_load_and_store = 200;
  co_await worker_.spin_until(worker_.now() + between_load_and_store);
  fabric::store_word_release(slot, desired);
  co_return Swap{Swap::Outcome::swapped, seen};
}

// Mutant unlock-by-write: an unconditional WRITE to a word that others CAS.
coro::Task<bool> Session::overwrite_index(cuckoo::Place place, Word word) {
  const IndexShare& share = own_.shares[place.node];
  const fabric::LocalSlice source{node_.words, word_at(lane_flush)};
  fabric::store_word_release(node_.words->at(source.offset), word);
  const fabric::Completion done =
      co_await worker_.write(share.index, share.base + place.slot * 8, source, 8, stats_);
  co_return done.ok();
}

coro::Task<Session::Swap> Session::take_back(cuckoo::Place place, Word own, Word to, Proof proof) {
  if (settings_.rules.unlocks_by_write) {
    const bool written = co_await overwrite_index(place, to);
    co_return Swap{written ? Swap::Outcome::swapped : Swap::Outcome::unknown, own};
  }
  co_return co_await swap_index(place, own, to, proof);
}

coro::Task<bool> Session::reconnect(fabric::NodeId peer) {
  const Nanos deadline = worker_.now() + settings_.reconnect_timeout;
  if (!worker_.connected(peer)) {
    ++own_.counters.reconnects;
    const bool is_connected = co_await worker_.reconnect(peer, deadline);
    if (!is_connected) {
      LOCH_PROBE("nessie.reconnect-timed-out");
      co_return false;
    }
  }
  if (own_.peers[peer].epoch != worker_.epoch(peer) && !look_up_regions(peer)) co_return false;
  // What was declared lost meanwhile is known by now, or will be met again.
  look_at_members();
  co_return true;
}

// A node that restarted has new keys for its regions; one that did not gives the same again.
bool Session::look_up_regions(fabric::NodeId peer) {
  const Result<fabric::RemoteRegion> index = store_.fabric().lookup(peer, index_region);
  const Result<fabric::RemoteRegion> data = store_.fabric().lookup(peer, data_region);
  if (!index.has_value() || !data.has_value()) return false;
  if (has(Flaw::keys_not_renewed)) return true;
  Peer& known = own_.peers[peer];  // its incarnation is what the members say, whatever the connection
  known.data = *data;
  known.epoch = worker_.epoch(peer);
  known.not_before = 0;
  known.is_gone = false;
  for (IndexShare& share : own_.shares) {
    if (share.index.node == peer) share.index = *index;
  }
  return true;
}

}  // namespace loch::nessie
