// A lane: the buffers and connections of one window slot of a client worker, and the steps that operations
// consist of: READs of a key's two combined buckets and of blocks, and the CAS of a slot, whose outcome after
// an error is learned by reading the slot over a new connection.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/coro/co_try.h"
#include "race/store.h"

namespace loch::race {

// The result of a step, and of an attempt of an operation by its last step. After `again` and `conflict` the
// attempt is repeated, after `conflict` with a back-off.
enum class Ended : std::uint8_t {
  ok,
  not_found,
  exists,
  again,     // another client has changed what was read
  conflict,  // another client is changing the entry or subtable, or its CAS was executed first
  table_full,
  no_block,
  failed,   // a node cannot be reached, or has lost its memory
  unknown,  // a CAS ended in an error, and the slot could not be read since
};

// The slots of a key's two combined buckets, with the content that one look (a READ of each) found.
class View {
 public:
  struct Seen {
    std::uint64_t offset = 0;  // in the node's table
    Word word = 0;
    std::uint8_t combined = 0;  // 0 or 1: which of the key's two combined buckets
    bool is_overflow = false;
    bool is_taken = false;    // the slot holds an entry that counts in this bucket
    bool is_leaving = false;  // a split is moving the bucket, and the key with it
  };
  static constexpr std::uint32_t most = 4 * slots_per_bucket;

  // Adds the slots of the main or the overflow bucket of the key's combined bucket `i` (0 or 1). The bucket's
  // content is at `bytes`, and it lies at `offset` in the node's table.
  void add(const Places& places, std::size_t i, bool is_overflow, std::uint64_t offset,
           const std::byte* bytes);
  [[nodiscard]] const Seen* begin() const { return slots_.data(); }
  [[nodiscard]] const Seen* end() const { return slots_.data() + count_; }
  [[nodiscard]] std::uint32_t size() const { return count_; }
  // The headers of the four buckets, and the least subtable depth in them. If a second READ finds the same
  // header, the header did not change in between.
  [[nodiscard]] const std::array<Word, 4>& headers() const { return headers_; }
  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] double share_taken() const;
  // The free slot that an INSERT takes: one in which a DELETE left a block before one without, then in the
  // less loaded combined bucket, in the main bucket first. INSERT as published takes the first in the order
  // of order_as_published(). Null: no slot is free.
  [[nodiscard]] const Seen* free_slot(bool as_published = false) const;
  // Puts the slots into the order in which SMART's artifact looks at them: both main buckets first.
  void order_as_published();

 private:
  std::array<Seen, most> slots_{};
  std::array<Word, 4> headers_{};
  std::uint32_t count_ = 0, depth_ = nobody;
};

// What is known about a CAS from `before` to `after` that ended in an error, if the slot's word, read
// afterwards, does not tell whether the CAS happened.
enum class Proof : std::uint8_t {
  none,          // other clients may have replaced either word, so that nothing is known
  after_stays,   // only this worker replaces `after`: as the slot does not hold it, the CAS did not happen
  before_stays,  // only this worker replaces `before`: as the slot does not hold it, the CAS happened
};

struct Lane {
  Lane(RaceStore& of, fabric::Worker& by, std::uint32_t which);
  Lane(const Lane&) = delete;

  // The lane's buffers: out() for the block that it WRITEs, in() for the block that it READs, buckets() for
  // READs of buckets.
  [[nodiscard]] fabric::LocalSlice out() const { return {node.buffers, 2 * number * settings.block.bytes()}; }
  [[nodiscard]] fabric::LocalSlice in() const {
    return {node.buffers, (2 * number + 1) * settings.block.bytes()};
  }
  [[nodiscard]] fabric::LocalSlice buckets(std::uint64_t at = 0) const {
    return {node.buckets, number * buckets_bytes + at};
  }
  // The worker's buffer for READs of a node's directory.
  [[nodiscard]] fabric::LocalSlice directory() const {
    return {node.directory, worker.index() * settings.directory_bytes()};
  }

  // Connects anew to a node, after an error.
  [[nodiscard]] coro::Task<Ended> reconnect(fabric::NodeId peer);
  // READs from a node's table or blocks; after an error, repeats the READ over a new connection.
  [[nodiscard]] coro::Task<Ended> read(const rpc::Remote* from, std::uint64_t offset, fabric::LocalSlice into,
                                       std::uint32_t bytes, fabric::OpStats* stats = nullptr);
  // READs both combined buckets of the key behind one doorbell; before them, WRITEs the lane's block to
  // `block` if that is not null. If a bucket's header says that a split has moved the key, READs the bucket
  // that has the key now, and the directory with it. Fails also if the node's memory was never initialised.
  [[nodiscard]] coro::Task<Ended> look(const Places* places, const Block* block, View* view,
                                       fabric::OpStats* stats);
  // READs the block that `word` names, and its head into `head`. not_found: it is the block of another key
  // than `key` (if that is given). again: it was being overwritten, or has been reused since `word` was
  // written.
  [[nodiscard]] coro::Task<Ended> fetch(fabric::NodeId peer, Word word, kv::Key key = {},
                                        fabric::OpStats* stats = nullptr);
  // READs a node's directory up to its global depth.
  [[nodiscard]] coro::Task<Ended> read_directory(fabric::NodeId peer, fabric::OpStats* stats = nullptr);
  // READs the word of a slot.
  [[nodiscard]] coro::Task<Ended> read_word(Slot slot, Word* word);
  // CAS of a slot. conflict: the slot held another word than `before`. A CAS that failed without being
  // executed is posted again.
  [[nodiscard]] coro::Task<Ended> swap(Slot slot, Word before, Word after, Proof proof,
                                       fabric::OpStats* stats = nullptr);
  // A CAS whose change another client may have made already, so that `conflict` counts as ok. Fails if its
  // outcome is unknown.
  [[nodiscard]] coro::Task<Ended> ensure(Slot slot, Word before, Word after, Proof proof);
  // Splits the subtable of this depth and suffix, or goes on with a split that its client left unfinished.
  // conflict: another client is splitting it, or an INSERT's pending entry is in the way.
  [[nodiscard]] coro::Task<Ended> split(fabric::NodeId peer, std::uint32_t suffix, std::uint32_t depth);

  RaceStore& store;
  const Settings& settings;
  NodeState& node;
  WorkerState& own;
  fabric::Worker& worker;
  std::uint64_t number;
  // `head` and `scratch`: the head and the checksummed bytes of the block that was fetched last; valid until
  // the next co_await.
  BlockHead head;
  std::vector<std::byte> scratch;

 private:
  struct Search;
  [[nodiscard]] bool take_halves(const Places& places, std::size_t i, Search& search, View& view);
  [[nodiscard]] fabric::WorkRequest directory_request(fabric::NodeId peer, fabric::OpStats* stats);
  void learn(const fabric::WorkRequest& request);
};

}  // namespace loch::race
