// GET (Pilaf 3.2 to 3.4): READs a bucket, then the extent (key and value) that it points to, and checks the
// checksums of both.
#include <algorithm>
#include <cstring>

#include "common/base/probe.h"
#include "pilaf_em/checksum.h"
#include "pilaf_em/client.h"

namespace loch::pilaf {

coro::Task<kv::OpResult> PilafClient::get_by_reads(kv::Key key, fabric::OpStats* stats) {
  const fabric::CpuCosts& costs = worker_.costs();
  co_await worker_.compute(costs.operation() + costs.hash(key.size));
  Link& link = own_.links[settings_.shard_of(key)];
  search_ = {.key = key, .link = &link, .view = link.view, .stats = stats};
  kv::OpResult failed{.status = kv::OpStatus::error};
  // READing the root (the table's descriptor) for the first time is part of connecting and not counted for
  // this GET.
  if (!search_.view.family) {
    const bool is_known = co_await read_root(nullptr);
    if (!is_known) co_return failed;
  }
  for (std::uint32_t attempt = 0; attempt < settings_.attempts; ++attempt) {
    failed.retries = attempt;
    own_.counters.restarts += attempt > 0 ? 1 : 0;
    const Scan seen = co_await scan();
    if (seen == Scan::found) co_return found(attempt);
    if (seen == Scan::missed && !settings_.rules.confirms_misses)
      co_return kv::OpResult{.status = kv::OpStatus::not_found, .retries = attempt};
    if (seen == Scan::missed) {
      const Miss miss = co_await confirm_miss();
      if (miss == Miss::failed) co_return failed;
      if (miss == Miss::sure) co_return kv::OpResult{.status = kv::OpStatus::not_found, .retries = attempt};
    }
    if (seen == Scan::failed) {
      const bool is_back = co_await reconnect();
      if (!is_back) co_return failed;
    }
    if (seen == Scan::moved || seen == Scan::failed) {
      const bool is_known = co_await read_root(stats);
      if (!is_known) co_return failed;
      // The table or the extents have grown, or the connection broke: the GET begins again with the key's
      // first candidate bucket. Without this fix the published client continues in the new table at the
      // candidate at which it left the old one (known fault P2, docs/protocols/pilaf.md).
      if (settings_.rules.resets_rank) search_.rank = 0;
    } else {
      search_.rank = 0;
    }
    if (worker_.stopping()) break;
  }
  ++own_.counters.conflicts;
  failed.status = kv::OpStatus::conflict;
  co_return failed;
}

kv::OpResult PilafClient::found(std::uint32_t retries) const {
  const std::uint32_t kept = std::min(search_.value_size, settings_.kept());
  const std::byte* value = landing(search_.key.size).data();
  return {.retries = retries, .value = {value, search_.value_size, kept}};
}

// A single coroutine, because every GET READs several buckets: a coroutine around each READ would cost a
// frame and two switches.
coro::Task<PilafClient::Scan> PilafClient::scan() {
  const fabric::CpuCosts& costs = worker_.costs();
  const kv::Key key = search_.key;
  LOCH_CHECK(search_.view.family.has_value(), "a scan of a table that nobody asked for");
  cuckoo::KeyHash hash = search_.view.family->hash({key.data, key.size});
  for (std::uint32_t i = search_.rank; i < settings_.hash_functions; ++i) {
    search_.rank = i;
    co_await worker_.compute(costs.hash(key.size));
    Bucket bucket;
    const std::uint64_t at = Shard::bucket_at(search_.view.root, hash.candidate(i).slot);
    const fabric::LocalSlice bucket_to = landing(settings_.landing_bucket()), extent_to = landing(0);
    if (search_.stats != nullptr) ++search_.stats->index_read;
    const fabric::Completion bucket_read =
        co_await worker_.read(search_.link->table, at, bucket_to, bucket_bytes, search_.stats);
    if (!bucket_read.ok()) co_return Scan::failed;
    co_await worker_.compute(costs.crc(bucket_guard_at));
    const Scan seen = take_bucket(&bucket);
    if (seen != Scan::found) co_return seen;
    if (!bucket.is_used) continue;
    const Scan named = check_place(bucket);
    if (named != Scan::found) co_return named;
    const fabric::Completion extent_read = co_await worker_.read(search_.link->extents, bucket.key_at,
                                                                 extent_to, bucket.capacity, search_.stats);
    if (!extent_read.ok()) co_return Scan::failed;
    if (settings_.rules.checks_extent) {
      co_await worker_.compute(costs.crc(bucket.key_length + bucket.value_length));
      if (!is_extent_whole(bucket)) co_return Scan::torn;
    }
    co_await worker_.compute(costs.compare(key.size));
    const bool is_key =
        bucket.key_length == key.size && std::memcmp(extent_to.data(), key.data, key.size) == 0;
    if (!is_key && settings_.rules.compares_keys) continue;
    search_.value_size = static_cast<std::uint32_t>(bucket.value_length);
    co_return Scan::found;
  }
  co_return Scan::missed;
}

PilafClient::Scan PilafClient::take_bucket(Bucket* bucket) {
  const bool is_whole = decode(landing(settings_.landing_bucket()).data(), bucket);
  if (!is_whole && settings_.rules.checks_guard) {
    LOCH_PROBE("pilaf.read.torn-guard");
    ++own_.counters.bad_guards;
    return Scan::torn;
  }
  if (bucket->is_closed()) {
    LOCH_PROBE("pilaf.read.table-grown");
    ++own_.counters.closed_buckets;
    return Scan::moved;
  }
  return Scan::found;
}

PilafClient::Scan PilafClient::check_place(const Bucket& bucket) {
  if (bucket.key_at + bucket.capacity > search_.view.root.extents_bytes) {
    LOCH_PROBE("pilaf.read.extents-grown");
    // The extent (key and value) ends behind the extents' memory as this client knows it: that memory has
    // grown meanwhile.
    ++own_.counters.foreign_extents;
    return Scan::moved;
  }
  const std::uint64_t stored = bucket.key_length + bucket.value_length;
  // A server of this deployment never writes such a bucket, so it was READ torn or is stale.
  const bool is_possible = bucket.capacity <= settings_.capacity && stored <= bucket.capacity &&
                           bucket.key_length != 0 && bucket.key_length <= settings_.config.key_size;
  return is_possible ? Scan::found : Scan::torn;
}

bool PilafClient::is_extent_whole(const Bucket& bucket) {
  // The checksum covers the bytes in memory: all of them, except in a simulation that stores values in part.
  const std::uint64_t kept =
      bucket.key_length + std::min<std::uint64_t>(bucket.value_length, settings_.kept());
  if (crc64({landing(0).data(), kept}) == bucket.extent_crc) return true;
  LOCH_PROBE("pilaf.read.torn-extent");
  ++own_.counters.bad_extents;
  return false;
}

coro::Task<bool> PilafClient::read_root(fabric::OpStats* stats) {
  const fabric::LocalSlice into = landing(settings_.landing_root());
  constexpr std::uint32_t most_tries = 100;
  for (std::uint32_t i = 0; i < most_tries; ++i) {
    ++own_.counters.roots_read;
    const fabric::Completion done = co_await worker_.read(search_.link->table, 0, into, root_bytes, stats);
    if (!done.ok()) {
      const bool is_back = co_await reconnect();
      if (!is_back) co_return false;
      continue;
    }
    co_await worker_.compute(worker_.costs().crc(root_guard_at));
    Root root;
    if (!decode(into.data(), &root)) {
      LOCH_PROBE("pilaf.read.torn-root");
      continue;
    }
    View& view = search_.view;
    if (!view.family || view.root.slots != root.slots) view.family = settings_.family(root.slots);
    view.root = root;
    search_.link->view = view;
    co_return true;
  }
  co_return false;
}

// READs of three buckets do not happen at one instant: a key that moves from a bucket not yet READ to one
// already READ is missed, although it was never absent (known fault P1, docs/protocols/pilaf.md). After a
// miss the client therefore READs the version, all buckets again, and the version once more; an equal, even
// version proves that no key moved in between.
coro::Task<PilafClient::Miss> PilafClient::confirm_miss() {
  const std::uint32_t looked_in = search_.view.root.epoch;
  const bool is_known = co_await read_root(search_.stats);
  if (!is_known) co_return Miss::failed;
  const Root& root = search_.view.root;
  if (search_.is_bracketed && root.version == search_.version && root.epoch == looked_in) {
    LOCH_PROBE("pilaf.read.miss-confirmed");
    ++own_.counters.misses_confirmed;
    co_return Miss::sure;
  }
  if (search_.is_bracketed) {
    LOCH_PROBE("pilaf.read.miss-refuted");
    ++own_.counters.misses_refuted;
  }
  search_.is_bracketed = root.version % 2 == 0 || !settings_.rules.awaits_even;
  search_.version = root.version;
  co_return Miss::unsure;
}

coro::Task<bool> PilafClient::reconnect() {
  Link& link = *search_.link;
  const Nanos deadline = worker_.now() + settings_.reconnect_timeout;
  if (!worker_.connected(link.node)) {
    LOCH_PROBE("pilaf.read.reconnect");
    ++own_.counters.reconnects;
    const bool is_connected = co_await worker_.reconnect(link.node, deadline);
    if (!is_connected) co_return false;
  }
  const std::uint32_t epoch = worker_.epoch(link.node);
  if (link.epoch != epoch && !settings_.rules.renews_keys) link.epoch = epoch;
  if (link.epoch != epoch) {
    // A restarted node has new rkeys for its regions; after a mere reconnection they are unchanged.
    const Result<fabric::RemoteRegion> table = store_.fabric().lookup(link.node, table_region(link.server));
    const Result<fabric::RemoteRegion> extents =
        store_.fabric().lookup(link.node, extents_region(link.server));
    if (!table.has_value() || !extents.has_value()) co_return false;
    if (link.table.rkey != table->rkey) {
      LOCH_PROBE("pilaf.read.server-reborn");
      // The position of the table that this client knows is no longer valid: the restarted node may never
      // have a table there.
      link.view.family.reset();
      search_.view.family.reset();
      search_.is_bracketed = false;
    }
    link.table = *table;
    link.extents = *extents;
    link.epoch = epoch;
  }
  co_return true;
}

}  // namespace loch::pilaf
