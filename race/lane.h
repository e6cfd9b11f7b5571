// The buffers and connections of one window slot, and the steps that operations make with them: READs of
// the two combined buckets and of blocks, and the CAS of a slot, whose outcome after an error is learned by
// reading the slot over a new connection.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/coro/co_try.h"
#include "race/store.h"

namespace loch::race {

// How a step ended, and an operation with its last step. `again` and `conflict` are tried again, the latter
// after a back-off.
enum class Ended : std::uint8_t {
  ok,
  not_found,
  exists,
  again,     // another client has changed what was looked at
  conflict,  // another client is at it, or its CAS was executed first
  table_full,
  no_block,
  failed,   // a node cannot be reached, or has lost its memory
  unknown,  // a CAS ended in an error, and the slot could not be read since
};

// The slots of a key's two combined buckets, as one look at them found them.
class View {
 public:
  struct Seen {
    std::uint64_t offset = 0;  // in the node's table
    Word word = 0;
    std::uint8_t combined = 0;  // number of the combined bucket
    bool is_overflow = false;
    bool is_taken = false;    // names an entry of this bucket
    bool is_leaving = false;  // the bucket is being moved, and the key with it
  };
  static constexpr std::uint32_t most = 4 * slots_per_bucket;

  // Adds the slots of the main or the overflow bucket of combined bucket number `i`, which lies at `bytes`
  // and at `offset` in the node's table.
  void add(const Places& places, std::size_t i, bool is_overflow, std::uint64_t offset,
           const std::byte* bytes);
  [[nodiscard]] const Seen* begin() const { return slots_.data(); }
  [[nodiscard]] const Seen* end() const { return slots_.data() + count_; }
  [[nodiscard]] std::uint32_t size() const { return count_; }
  // The headers of the buckets, and the least depth among them. A header that is read again and the same was
  // the bucket's all the time between.
  [[nodiscard]] const std::array<Word, 4>& headers() const { return headers_; }
  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] double share_taken() const;
  // The slot that an INSERT takes: one with a block before one without, then in the less loaded combined
  // bucket, in the main bucket first. INSERT as published takes the first in the order of
  // order_as_published(). Null: no slot is free.
  [[nodiscard]] const Seen* free_slot(bool as_published = false) const;
  // Puts the slots into the order in which SMART's artifact looks at them: both main buckets first.
  void order_as_published();

 private:
  std::array<Seen, most> slots_{};
  std::array<Word, 4> headers_{};
  std::uint32_t count_ = 0, depth_ = nobody;
};

// What a READ of the slot proves about a CAS that ended in an error, if the slot holds neither word.
enum class Proof : std::uint8_t {
  none,          // others may have replaced either word
  after_stays,   // only this worker changes `after`, so that the CAS did not happen
  before_stays,  // only this worker changes `before`, so that the CAS happened
};

struct Lane {
  Lane(RaceStore& of, fabric::Worker& by, std::uint32_t which);
  Lane(const Lane&) = delete;

  // The lane's buffers: of the block that it WRITEs, of the one that it READs, and of buckets.
  [[nodiscard]] fabric::LocalSlice out() const { return {node.buffers, 2 * number * settings.block.bytes()}; }
  [[nodiscard]] fabric::LocalSlice in() const {
    return {node.buffers, (2 * number + 1) * settings.block.bytes()};
  }
  [[nodiscard]] fabric::LocalSlice buckets(std::uint64_t at = 0) const {
    return {node.buckets, number * buckets_bytes + at};
  }
  // Its worker's buffer of a directory.
  [[nodiscard]] fabric::LocalSlice directory() const {
    return {node.directory, worker.index() * settings.directory_bytes()};
  }

  // Connects anew to a node, after an error.
  [[nodiscard]] coro::Task<Ended> reconnect(fabric::NodeId peer);
  // READs from a node's table or blocks, again over a new connection after an error.
  [[nodiscard]] coro::Task<Ended> read(const rpc::Remote* from, std::uint64_t offset, fabric::LocalSlice into,
                                       std::uint32_t bytes, fabric::OpStats* stats = nullptr);
  // READs both combined buckets behind one doorbell, and before them WRITEs the lane's block to `block`, if
  // given. A bucket whose header says that the key has moved is read where it is now, and the directory with
  // it. Fails also where a node's memory was never laid out.
  [[nodiscard]] coro::Task<Ended> look(const Places* places, const Block* block, View* view,
                                       fabric::OpStats* stats);
  // READs the block that the word names, and its head into `head`. not_found: it is not the block of `key`,
  // if that is given. again: it is not the block that the word meant.
  [[nodiscard]] coro::Task<Ended> fetch(fabric::NodeId peer, Word word, kv::Key key = {},
                                        fabric::OpStats* stats = nullptr);
  // READs a node's directory up to its global depth.
  [[nodiscard]] coro::Task<Ended> read_directory(fabric::NodeId peer, fabric::OpStats* stats = nullptr);
  // READs the word of a slot.
  [[nodiscard]] coro::Task<Ended> read_word(Slot slot, Word* word);
  // CAS of a slot; conflict: it held another word. A CAS that was not executed is posted again.
  [[nodiscard]] coro::Task<Ended> swap(Slot slot, Word before, Word after, Proof proof,
                                       fabric::OpStats* stats = nullptr);
  // A CAS that another client may have made before. Fails where its outcome is unknown.
  [[nodiscard]] coro::Task<Ended> ensure(Slot slot, Word before, Word after, Proof proof);
  // Splits the subtable of this depth and suffix, or goes on with a split that was left. conflict: another
  // client splits it, or a pending entry is in the way.
  [[nodiscard]] coro::Task<Ended> split(fabric::NodeId peer, std::uint32_t suffix, std::uint32_t depth);

  RaceStore& store;
  const Settings& settings;
  NodeState& node;
  WorkerState& own;
  fabric::Worker& worker;
  std::uint64_t number;
  // The head and the checked bytes of the block that was fetched last; valid until the next co_await.
  BlockHead head;
  std::vector<std::byte> scratch;

 private:
  struct Search;
  [[nodiscard]] bool take_halves(const Places& places, std::size_t i, Search& search, View& view);
  [[nodiscard]] fabric::WorkRequest directory_request(fabric::NodeId peer, fabric::OpStats* stats);
  void learn(const fabric::WorkRequest& request);
};

}  // namespace loch::race
