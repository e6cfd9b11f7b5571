// The steps over the fabric: READ and CAS of index words, completions by watermark or by completion
// queue entry, and what follows an error.
#include <utility>

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
      one_sided(fabric::Verb::read, own_.peers[peer].index, 0, scratch, 8, nullptr);
  co_return co_await rpc::settle(&worker_, outcome, flush);
}

coro::Task<Session::WordRead> Session::read_index(cuckoo::Place place) {
  if (settings_.rules.cpu_on_index && place.node == node_.node) {
    const Word word = fabric::load_word(node_.index->at(place.slot * 8));
    co_return WordRead{true, word};
  }
  const auto peer = static_cast<fabric::NodeId>(place.node);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const fabric::LocalSlice landing{node_.words, word_at(lane_index)};
    fabric::WorkRequest request =
        one_sided(fabric::Verb::read, own_.peers[peer].index, place.slot * 8, landing, 8, stats_);
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
      co_return WordRead{WordFormat::is_stored(word), word};
    }
    const bool is_back = co_await reconnect(peer);
    if (!is_back) break;
  }
  co_return WordRead{};
}

coro::Task<Session::Swap> Session::swap_index(cuckoo::Place place, Word expected, Word desired,
                                              bool is_private) {
  if (settings_.rules.cpu_on_index && place.node == node_.node) {
    co_return co_await swap_by_cpu(place, expected, desired);
  }
  const auto peer = static_cast<fabric::NodeId>(place.node);
  const fabric::LocalSlice landing{node_.words, word_at(lane_swap)};
  constexpr int most_tries = 4;
  for (int attempt = 0; attempt < most_tries; ++attempt) {
    fabric::WorkRequest request =
        one_sided(fabric::Verb::cas, own_.peers[peer].index, place.slot * 8, landing, 8, stats_);
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
    const Swap settled = co_await settle_swap(place, expected, desired, is_private);
    const bool did_not_happen = settled.outcome == Swap::Outcome::lost && settled.seen == expected;
    if (!did_not_happen) co_return settled;
  }
  co_return Swap{Swap::Outcome::unknown, 0};
}

// H17: the outcome of a CAS that ended in an error is asked of the slot. Once the connection is a
// new one, the old request cannot take effect any more; and words are unique, so that finding
// `desired` means that it did, and `expected`, that it did not.
coro::Task<Session::Swap> Session::settle_swap(cuckoo::Place place, Word expected, Word desired,
                                               bool is_private) {
  ++own_.counters.ambiguous_swaps;
  const bool is_back = co_await reconnect(static_cast<fabric::NodeId>(place.node));
  if (!is_back) co_return Swap{Swap::Outcome::unknown, 0};
  const WordRead now = co_await read_index(place);
  if (!now.ok) co_return Swap{Swap::Outcome::unknown, 0};
  if (now.word == desired) co_return Swap{Swap::Outcome::swapped, expected};
  if (now.word == expected || is_private) co_return Swap{Swap::Outcome::lost, now.word};
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
  const auto peer = static_cast<fabric::NodeId>(place.node);
  const fabric::LocalSlice source{node_.words, word_at(lane_flush)};
  fabric::store_word_release(node_.words->at(source.offset), word);
  const fabric::Completion done =
      co_await worker_.write(own_.peers[peer].index, place.slot * 8, source, 8, stats_);
  co_return done.ok();
}

coro::Task<Session::Swap> Session::take_back(cuckoo::Place place, Word own, Word to) {
  if (settings_.rules.unlocks_by_write) {
    const bool written = co_await overwrite_index(place, to);
    co_return Swap{written ? Swap::Outcome::swapped : Swap::Outcome::unknown, own};
  }
  co_return co_await swap_index(place, own, to, false);
}

coro::Task<bool> Session::reconnect(fabric::NodeId peer) {
  const Nanos deadline = worker_.now() + settings_.reconnect_timeout;
  if (!worker_.connected(peer)) {
    ++own_.counters.reconnects;
    const bool is_connected = co_await worker_.reconnect(peer, deadline);
    if (!is_connected) co_return false;
  }
  Peer& known = own_.peers[peer];
  const std::uint32_t epoch = worker_.epoch(peer);
  if (known.epoch != epoch) {
    // A node that restarted has new keys for its regions; one that did not gives the same again.
    const Result<fabric::RemoteRegion> index = store_.fabric().lookup(peer, index_region);
    const Result<fabric::RemoteRegion> data = store_.fabric().lookup(peer, data_region);
    if (!index.has_value() || !data.has_value()) co_return false;
    known = {*index, *data, epoch};
  }
  co_return true;
}

}  // namespace loch::nessie
