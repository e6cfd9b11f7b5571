// One window slot (place for one outstanding operation) of a client worker: GETs by READs (get.cc), other
// operations by messages (client.cc), or HERD's emulation of Pilaf (emulation.cc). One operation at a time.
#pragma once

#include <cstdint>
#include <optional>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"
#include "pilaf_em/store.h"

namespace loch::pilaf {

class PilafClient final : public kv::Client {
 public:
  PilafClient(PilafStore& store, fabric::Worker& worker, std::uint32_t slot);

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override;
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override;
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override;
  [[nodiscard]] coro::Task<kv::OpResult> insert_if_absent(kv::Key key, kv::ValueView value,
                                                          fabric::OpStats* stats) override;

 private:
  using Bytes = std::span<const std::byte>;

  // ---- GET by READs (get.cc)
  // The result of one search through the key's buckets.
  enum class Scan : std::uint8_t {
    found,
    missed,  // no bucket has the key
    torn,    // a bucket's or an extent's checksum is wrong: the server is writing there
    moved,   // the table or the extents (keys and values) have moved or grown: READ the table's root again
    failed,  // the connection broke
  };
  struct Search {
    kv::Key key;
    Link* link = nullptr;
    // This GET's copy of the root (the table's descriptor); the worker's other outstanding operations may
    // meanwhile update the copy that they all share.
    View view;
    std::uint32_t rank = 0;  // index of the key's candidate bucket (0 to 2) at which the search continues
    std::uint32_t value_size = 0;
    fabric::OpStats* stats = nullptr;
    // whether the root (the table's descriptor) was READ with an even version before the buckets of the
    // present search were READ
    bool is_bracketed = false;
    std::uint64_t version = 0;
  };
  [[nodiscard]] coro::Task<kv::OpResult> get_by_reads(kv::Key key, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<Scan> scan();
  // Decodes the bucket that was READ. Anything but Scan::found ends the search.
  [[nodiscard]] Scan take_bucket(Bucket* bucket);
  // Whether the place that the bucket names can be that of an extent (a key and its value).
  [[nodiscard]] Scan check_place(const Bucket& bucket);
  // Whether the checksum of the extent (key and value) that was READ is right.
  [[nodiscard]] bool is_extent_whole(const Bucket& bucket);
  // READs the shard's root (its table's descriptor). Returns false if the shard's node cannot be reached or
  // its memory is lost.
  [[nodiscard]] coro::Task<bool> read_root(fabric::OpStats* stats);
  [[nodiscard]] coro::Task<bool> reconnect();
  // Whether a search that found nothing proves that the key is absent; it does not if the key was moved
  // meanwhile (known fault P1 in docs/protocols/pilaf.md).
  enum class Miss : std::uint8_t { sure, unsure, failed };
  [[nodiscard]] coro::Task<Miss> confirm_miss();
  [[nodiscard]] kv::OpResult found(std::uint32_t retries) const;

  // ---- messages (client.cc)
  // Sends a PUT or an INSERT to the key's server.
  [[nodiscard]] coro::Task<kv::OpResult> store(MessageOp op, kv::Key key, kv::ValueView value,
                                               fabric::OpStats* stats);
  [[nodiscard]] coro::Task<kv::OpResult> change(MessageOp op, std::uint32_t shard, std::uint32_t length,
                                                fabric::OpStats* stats);
  [[nodiscard]] coro::Task<kv::OpResult> get_by_message(kv::Key key, fabric::OpStats* stats);
  void write_key(std::byte* out, kv::Key key) const;
  [[nodiscard]] kv::OpResult unanswered(const rpc::Reply& reply) const;

  // ---- operations of the emulation em-opt (emulation.cc)
  [[nodiscard]] coro::Task<kv::OpResult> emulated_get(kv::Key key, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<kv::OpResult> emulated_put(kv::Key key, kv::ValueView value,
                                                      fabric::OpStats* stats);

  [[nodiscard]] fabric::LocalSlice landing(std::uint64_t within) const {
    return {node_.landing, landing_ + within};
  }
  [[nodiscard]] rpc::ServerAddress address(std::uint32_t shard) const {
    return {settings_.node_of(shard), settings_.server_of(shard)};
  }

  PilafStore& store_;
  const Settings& settings_;
  fabric::Worker& worker_;
  NodeState& node_;
  WorkerState& own_;
  std::uint32_t slot_;
  std::uint64_t landing_;  // offset of this window slot's buffer in the landing region
  Search search_;          // state of the current GET
};

}  // namespace loch::pilaf
