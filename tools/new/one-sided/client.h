// A client: GET by three READs, PUT and DELETE with the record's lock held. No server takes part.
#pragma once

#include "newstore/store.h"

namespace loch::newstore {

class Client final : public kv::Client {
 public:
  Client(fabric::Worker& worker, Shared& shared, std::uint32_t slot);

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override;
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override {
    return change(key, value, true, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    return change(key, {}, false, stats);
  }

 private:
  // Where a record's slot (lock, state and value) is.
  struct Slot {
    const fabric::RemoteRegion* region = nullptr;
    std::uint64_t offset = 0;
  };
  // The result of trying to lock a record.
  struct Lock {
    kv::OpResult result;  // result.status is ok if the lock is held
    std::uint64_t free = 0;
  };
  [[nodiscard]] coro::Task<kv::OpResult> change(kv::Key key, kv::ValueView value, bool is_put,
                                                fabric::OpStats* stats);
  [[nodiscard]] coro::Task<Lock> take(Slot slot, fabric::OpStats* stats);
  [[nodiscard]] Slot find(kv::Key key) const;
  [[nodiscard]] kv::OpResult found(std::uint32_t retries);
  // The part of this client's buffer that begins `within` bytes from its start. The buffer has space for one
  // slot (lock, state, value) that READs fill, then for one that is written.
  [[nodiscard]] fabric::LocalSlice buffer(std::uint64_t within) const { return {buffer_, at_ + within}; }
  [[nodiscard]] std::uint64_t word(std::uint64_t within) const;

  fabric::Worker& worker_;
  Shared& shared_;
  const Settings& settings_;
  fabric::Region* buffer_;
  std::uint64_t at_;
  std::vector<std::byte> value_;
};

}  // namespace loch::newstore
