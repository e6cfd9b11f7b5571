// One window slot of one client worker: GET by READs (get.cc), everything else by messages (client.cc),
// or HERD's emulation of both (emulation.cc). One operation at a time.
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
  // How one look over the key's buckets ended.
  enum class Scan : std::uint8_t {
    found,
    missed,  // no bucket has the key
    torn,    // a guard or checksum is wrong: the server is writing there
    moved,   // the table is not where it was
    failed,  // the connection broke
  };
  struct Search {
    kv::Key key;
    Link* link = nullptr;
    View view;               // as of this look; the worker's other lanes may renew the link's
    std::uint32_t rank = 0;  // rank at which the search continues
    std::uint32_t value_size = 0;
    fabric::OpStats* stats = nullptr;
    bool is_bracketed = false;  // this lookup began after an even version was read
    std::uint64_t version = 0;
  };
  [[nodiscard]] coro::Task<kv::OpResult> get_by_reads(kv::Key key, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<Scan> scan();
  [[nodiscard]] coro::Task<Scan> read_bucket(std::uint64_t slot, Bucket* bucket);
  [[nodiscard]] coro::Task<Scan> read_extent(const Bucket* bucket);
  // READs the shard's root. False: its node cannot be reached, or has lost its memory.
  [[nodiscard]] coro::Task<bool> read_root(fabric::OpStats* stats);
  [[nodiscard]] coro::Task<bool> reconnect();
  // Whether a search without a result proves that the key is absent (P1).
  enum class Miss : std::uint8_t { sure, unsure, failed };
  [[nodiscard]] coro::Task<Miss> confirm_miss();
  [[nodiscard]] kv::OpResult found(std::uint32_t retries) const;

  // ---- messages (client.cc)
  // A PUT or an INSERT.
  [[nodiscard]] coro::Task<kv::OpResult> store(MessageOp op, kv::Key key, kv::ValueView value,
                                               fabric::OpStats* stats);
  [[nodiscard]] coro::Task<kv::OpResult> change(MessageOp op, std::uint32_t shard, std::uint32_t length,
                                                fabric::OpStats* stats);
  [[nodiscard]] coro::Task<kv::OpResult> get_by_message(kv::Key key, fabric::OpStats* stats);
  void write_key(std::byte* out, kv::Key key) const;
  [[nodiscard]] kv::OpResult unanswered(const rpc::Reply& reply) const;

  // ---- emulation.cc
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
  std::uint64_t landing_;  // of this lane's buffer in the landing region
  Search search_;          // of the GET under way
};

}  // namespace loch::pilaf
