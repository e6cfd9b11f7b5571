// A client of FaRM-em. GET: one READ of the six buckets that may hold the key, and in farm-em-var a second
// READ of the value that the bucket points to. PUT and DELETE: a request to a server worker.
#pragma once

#include "farm_em/store.h"

namespace loch::farm {

class FarmClient final : public kv::Client {
 public:
  FarmClient(FarmStore& store, fabric::Worker& worker, WorkerState& own, Putter& putter, std::uint32_t slot);

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override;
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override;
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override;

 private:
  [[nodiscard]] cuckoo::Place home(kv::Key key) const;
  // READs from the index or the values of a node. If the READ fails, reconnects and tries again, up to 8
  // times in all. Returns false if no try succeeded.
  [[nodiscard]] coro::Task<bool> read(bool is_value, std::uint32_t node, std::uint64_t offset,
                                      std::uint32_t bytes, fabric::OpStats* stats, std::uint32_t* retries);
  // Index (0 to 5) of the fetched bucket that holds the key; also 0 if no fetched bucket holds it.
  [[nodiscard]] std::uint32_t find(kv::Key key);

  FarmStore& store_;
  const Settings& settings_;
  fabric::Worker& worker_;
  WorkerState& own_;
  Putter& putter_;
  fabric::LocalSlice landing_, landing_value_;
};

}  // namespace loch::farm
