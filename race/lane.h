// The buffers and connections of one window slot, and the requests that operations make with them: READs of
// the two combined buckets and of blocks, and the CAS of a slot, whose outcome after an error is learned by
// reading the slot over a new connection.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "race/store.h"

namespace loch::race {

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
  // The headers of the buckets, and the least depth among them. A header that is read again and the same was
  // the bucket's all the time between.
  [[nodiscard]] const std::array<Word, 4>& headers() const { return headers_; }
  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] double share_taken() const;
  // The slot that an INSERT takes: one with a block before one without, then in the less loaded combined
  // bucket, in the main bucket first. Null: no slot is free.
  [[nodiscard]] const Seen* free_slot() const;
  // The slot that an INSERT of SMART's artifact takes: the first free one in the order of
  // order_as_published(), into which this puts the slots. Null: no slot is free.
  [[nodiscard]] const Seen* first_free();
  // Puts the slots into the order in which SMART's artifact looks at them: both main buckets first.
  void order_as_published();

 private:
  std::array<Seen, most> slots_{};
  std::array<Word, 4> headers_{};
  std::uint32_t count_ = 0, depth_ = nobody;
};

// How a CAS ended.
enum class Swap : std::uint8_t { done, lost, unknown };

// What a READ of the slot proves about a CAS that ended in an error, if the slot holds neither word.
enum class Proof : std::uint8_t {
  none,          // others may have replaced either word
  after_stays,   // only this worker changes `after`, so that the CAS did not happen
  before_stays,  // only this worker changes `before`, so that the CAS happened
};

// How the READ of a block ended.
struct Fetched {
  enum class State : std::uint8_t { failed, changed, other_key, is_key };
  State state = State::failed;
  BlockHead head;
};

struct Lane {
  Lane(RaceStore& of, fabric::Worker& by, std::uint32_t number);
  Lane(const Lane&) = delete;

  [[nodiscard]] std::uint64_t out_at() const { return number * 2 * settings.block.bytes(); }
  [[nodiscard]] std::uint64_t in_at() const { return out_at() + settings.block.bytes(); }
  [[nodiscard]] std::uint64_t buckets_at() const { return number * buckets_bytes; }
  [[nodiscard]] std::uint64_t directory_at() const { return worker.index() * settings.directory_bytes(); }

  RaceStore& store;
  const Settings& settings;
  NodeState& node;
  WorkerState& own;
  fabric::Worker& worker;
  std::uint64_t number;
  std::vector<std::byte> scratch;  // the checked bytes of a block; valid until the next co_await
};

// Connects anew to a node, after an error. False: it cannot be reached, or its memory is not what it was.
[[nodiscard]] coro::Task<bool> reconnect(Lane* lane, fabric::NodeId node);

// READs from a node's table or blocks, again over a new connection after an error. False: it cannot be
// reached.
[[nodiscard]] coro::Task<bool> read(Lane* lane, const rpc::Remote* from, std::uint64_t offset,
                                    fabric::LocalSlice into, std::uint32_t bytes, fabric::OpStats* stats);
// READs both combined buckets behind one doorbell, and before them WRITEs the lane's block to `block`, if
// given. A bucket whose header says that the key has moved is read where it is now, and the directory with
// it. False: a node cannot be reached, or its memory was never laid out.
[[nodiscard]] coro::Task<bool> look(Lane* lane, const Places* places, const Block* block, View* view,
                                    fabric::OpStats* stats);
// READs the block that the word names, into the lane's second buffer, and compares its key.
[[nodiscard]] coro::Task<Fetched> fetch(Lane* lane, fabric::NodeId node, Word word, kv::Key key,
                                        fabric::OpStats* stats);
// READs a node's directory up to its global depth.
[[nodiscard]] coro::Task<bool> read_directory(Lane* lane, fabric::NodeId node, fabric::OpStats* stats);
// READs the word of a slot; none: its node cannot be reached.
[[nodiscard]] coro::Task<std::optional<Word>> read_slot(Lane* lane, Slot slot);
// CAS of a slot. A CAS that was not executed is posted again.
[[nodiscard]] coro::Task<Swap> swap(Lane* lane, Slot slot, Word before, Word after, Proof proof,
                                    fabric::OpStats* stats);
// Splits the subtable of this depth and suffix, or goes on with a split that was left. `waits`: another
// client splits it, or a pending entry is in the way.
enum class Split : std::uint8_t { done, waits, failed };
[[nodiscard]] coro::Task<Split> split(Lane* lane, fabric::NodeId node, std::uint32_t suffix,
                                      std::uint32_t depth);

}  // namespace loch::race
