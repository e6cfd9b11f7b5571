// A lane: the buffers and connections of one window slot of a client worker, and the steps that operations
// consist of: READs of a key's two combined buckets and of blocks, and the CAS of a slot, whose outcome after
// an error is learned by reading the slot over a new connection.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/coro/co_try.h"
#include "race/store.h"

namespace loch::race {

// The result of a step, and of an attempt of an operation by its last step.
//
// again: another client has changed what was read; the attempt is repeated.
//
// conflict: another client is changing the entry or subtable, or its CAS was executed first; the attempt is
// repeated after a back-off.
//
// failed: a node cannot be reached, or has lost its memory.
//
// unknown: a CAS ended in an error, and the slot could not be read since.
enum class Ended : std::uint8_t { ok, not_found, exists, again, conflict, table_full, failed, unknown };

// The slots of a key's two combined buckets, with the content that one look (a READ of each) found.
struct View {
  struct Seen {
    std::uint64_t offset = 0;  // in the node's table
    Word word = 0;
    std::uint8_t combined = 0;  // 0 or 1: which of the key's two combined buckets
    bool is_overflow = false;
    bool is_taken = false;    // the slot holds an entry that counts in this bucket
    bool is_leaving = false;  // a split is moving the bucket, and the key with it
  };
  // Adds the slots of one half (0 or 1) of the key's combined bucket `i` (0 or 1). `bytes`: the half's
  // content. `subtable`: offset of the subtable in the node's table.
  void add(const Places& places, std::size_t i, std::uint32_t half, std::uint64_t subtable,
           const std::byte* bytes);
  [[nodiscard]] std::span<const Seen> seen() const { return {slots.data(), count}; }
  [[nodiscard]] double share_taken() const;
  // The free slot that an INSERT takes: one in which a DELETE left a block before one without, then in the
  // less loaded combined bucket, in the main bucket first. INSERT as published takes the first in the order
  // of order_as_published(). Null: no slot is free.
  [[nodiscard]] const Seen* free_slot(bool as_published) const;
  // Puts the slots into the order in which SMART's artifact looks at them: both main buckets first.
  void order_as_published();

  // By combined bucket and half: the suffix of the subtable in which to read the half, which a split may have
  // moved; `nowhere` once it has been read.
  static constexpr std::uint32_t nowhere = nobody;
  std::array<std::array<std::uint32_t, 2>, 2> where{};
  // The suffix of the subtable in which combined bucket `i` is to be read next; or `nowhere`.
  [[nodiscard]] std::uint32_t next(std::size_t i) const { return where[i][where[i][0] == nowhere ? 1 : 0]; }

  std::array<Seen, 4 * slots_per_bucket> slots{};
  // The headers of the four buckets, and the least subtable depth in them. If a second READ finds the same
  // header, the header did not change in between.
  std::array<Word, 4> headers{};
  std::uint32_t depth = nobody, count = 0;  // count: number of slots
};

// What is known about a CAS from `before` to `after` that ended in an error, if the slot's word, read
// afterwards, does not tell whether the CAS happened.
//
// none: other clients may have replaced either word, so that nothing is known.
//
// after_stays: only this worker replaces `after`: as the slot does not hold it, the CAS did not happen.
//
// before_stays: only this worker replaces `before`: as the slot does not hold it, the CAS happened.
enum class Proof : std::uint8_t { none, after_stays, before_stays };

struct Lane {
  // `which`: number of the lane among those of its worker.
  Lane(RaceStore& of, fabric::Worker& by, std::uint32_t which) : store(of), worker(by), lane(which) {}
  Lane(const Lane&) = delete;

  // The lane's buffer for READs of buckets, from byte `at` on.
  [[nodiscard]] fabric::LocalSlice buckets(std::uint64_t at = 0) const {
    return {node.buckets, number * buckets_bytes + at};
  }
  // Connects anew to a node, after an error.
  [[nodiscard]] coro::Task<Ended> reconnect(fabric::NodeId peer);
  // READs from a node's table or blocks; after an error, repeats the READ over a new connection.
  [[nodiscard]] coro::Task<Ended> read(const rpc::Remote* from, std::uint64_t offset, fabric::LocalSlice into,
                                       std::uint32_t bytes);
  // READs both combined buckets of the key into `view`, behind one doorbell; before them, WRITEs the block
  // `unwritten`, if there is one. If a bucket's header says that a split has moved the key, READs the bucket
  // that has the key now, and the directory with it. Fails also if the node's memory was never initialised.
  [[nodiscard]] coro::Task<Ended> look();
  // READs the block that a slot's word names into `scratch`, and its head into `head`. not_found: it is the
  // block of another key than `key` (if that is given). again: it was being overwritten, or has been reused
  // since the word was written.
  [[nodiscard]] coro::Task<Ended> fetch(fabric::NodeId peer, Word named_by, kv::Key key = {});
  // READs a node's directory up to its global depth.
  [[nodiscard]] coro::Task<Ended> read_directory(fabric::NodeId peer);
  // READs the word of a slot into `word_read`.
  [[nodiscard]] coro::Task<Ended> read_word(Slot slot);
  // CAS of a slot. conflict: the slot held another word than `before`. A CAS that failed without being
  // executed is posted again.
  [[nodiscard]] coro::Task<Ended> swap(Slot slot, Word before, Word after, Proof proof);
  // A CAS whose change another client may have made already, so that `conflict` counts as ok. Fails if the
  // slot cannot be read after an error.
  [[nodiscard]] coro::Task<Ended> ensure(Slot slot, Word before, Word after);
  // Splits the subtable of this depth and suffix, or goes on with a split that its client left unfinished.
  // conflict: another client is splitting it, or an INSERT's pending entry is in the way.
  [[nodiscard]] coro::Task<Ended> split(fabric::NodeId peer, std::uint32_t suffix, std::uint32_t depth);
  // Leaves it to the worker's background work (repair.cc) to find out whether a CAS took place.
  void leave(const Doubt& doubt);

  RaceStore& store;
  fabric::Worker& worker;
  const std::uint32_t lane;
  const Settings& settings = store.settings();
  NodeState& node = store.local(worker.node());
  WorkerState& own = *node.workers.at(worker.index());
  // Of the operation under way: the statistics in which its requests are counted (null: none), where its key
  // can be, what was seen there last, and the block that was prepared in `out` and is not yet written to a
  // node.
  fabric::OpStats* stats = nullptr;
  Places places;
  View view;
  std::optional<Block> unwritten;
  // number of the client worker in the cluster
  const std::uint32_t me = settings.config.client_number(worker.node(), worker.index());
  const std::uint64_t number = worker.index() * (settings.config.window + 2ULL) + lane;  // on the node
  // The lane's buffers for the block that it WRITEs and the block that it READs, and the worker's buffer for
  // READs of a node's directory.
  const fabric::LocalSlice out{node.buffers, settings.block.bytes() * (2 * number)},
      in{node.buffers, settings.block.bytes() * (2 * number + 1)},
      directory{node.directory, worker.index() * settings.directory_bytes()};
  // The word that read_word() has read, and the head and the checksummed bytes of the block that was fetched
  // last; valid until the next co_await.
  Word word_read = 0;
  BlockHead head;
  std::vector<std::byte> scratch = std::vector<std::byte>(settings.block.checked_bytes());

 private:
  [[nodiscard]] bool take_halves(std::size_t i);
  [[nodiscard]] fabric::WorkRequest directory_request(fabric::NodeId peer);
  void learn(const fabric::WorkRequest& request);
};

}  // namespace loch::race
