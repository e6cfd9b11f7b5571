// A client of DrTM-em. GET: one READ of the item. PUT and DELETE: two atomics on the item's state word, and
// no WRITE.
#pragma once

#include "drtm_em/store.h"

namespace loch::drtm {

class DrtmClient final : public kv::Client {
 public:
  DrtmClient(DrtmStore& store, fabric::Worker& worker, WorkerState& own, std::uint32_t slot);

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override;
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override;
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override;

 private:
  enum class Locked : std::uint8_t { held_by_me, conflict, error };
  struct Address {
    std::uint32_t node = 0;
    std::uint64_t offset = 0;  // byte offset of the item
  };
  [[nodiscard]] Address find(kv::Key key) const;
  [[nodiscard]] fabric::WorkRequest state_request(fabric::Verb verb, const Address& item,
                                                  fabric::OpStats* stats) const;
  [[nodiscard]] coro::Task<kv::OpResult> update(kv::Key key, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<kv::OpResult> add_twice(Address item, fabric::OpStats* stats);
  // Adds one to the item's state; `is_done` says whether the addition is known to have been executed.
  [[nodiscard]] static coro::Task<void> add(DrtmClient* self, Address item, fabric::OpStats* stats,
                                            bool* is_done);
  [[nodiscard]] coro::Task<bool> add_by_write(Address item, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<kv::OpResult> lock_and_release(Address item, fabric::OpStats* stats);
  // Tries to lock the item; `retries` is set to the number of attempts beyond the first.
  [[nodiscard]] coro::Task<Locked> lock(Address item, fabric::OpStats* stats, std::uint32_t* retries);
  [[nodiscard]] coro::Task<Locked> settle_lock(Address item);
  [[nodiscard]] coro::Task<bool> release(Address item, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<bool> reconnect(std::uint32_t node);

  DrtmStore& store_;
  const Settings& settings_;
  fabric::Worker& worker_;
  WorkerState& own_;
  fabric::LocalSlice landing_;  // local buffer into which an item is READ
  fabric::LocalSlice word_;
  std::uint64_t lock_word_;  // state word that marks an item as locked by this client
};

}  // namespace loch::drtm
