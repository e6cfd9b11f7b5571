// A server worker's access to the index words of its node through the NIC: READs and CASes over the queue
// pair to the worker's own node. "Because CAS verbs are only atomic relative to other RDMA operations on the
// same NIC, all ITE accesses (even for local ITEs) are managed using RDMA" (Nessie, 2017, 4.1.1).
#pragma once

#include <cstdint>
#include <optional>

#include "common/coupled/tables.h"
#include "common/fabric/fabric.h"

namespace loch::coupled {

class NicIndex {
 public:
  // Gives server worker `server` of the worker's node access to that node's index words. Both references must
  // outlive it.
  NicIndex(Tables& tables, fabric::Worker& worker, std::uint32_t server);

  // READs a slot's word, over a new connection after an error, as often as it takes. Returns nullopt if the
  // worker has to stop first, or if the memory was never initialised.
  [[nodiscard]] coro::Task<std::optional<std::uint64_t>> read(std::uint64_t slot);
  // Changes the slot's word from `expected` to `desired` by CAS. After an error the slot is READ, and the CAS
  // posted again if it did not take place. Returns false if the outcome cannot be learned because the worker
  // has to stop.
  [[nodiscard]] coro::Task<bool> swap(std::uint64_t slot, std::uint64_t expected, std::uint64_t desired);

 private:
  [[nodiscard]] coro::Task<fabric::WcStatus> execute(fabric::WorkRequest request);
  [[nodiscard]] coro::Task<bool> connect();
  [[nodiscard]] fabric::WorkRequest request(fabric::Verb verb, std::uint64_t slot) const;

  const Settings& settings_;
  fabric::Worker& worker_;
  std::uint32_t server_;
  fabric::RemoteRegion index_;  // the index of the worker's own node, as the NIC reaches it
  fabric::LocalSlice landing_;  // buffer for the words that READs and CASes return
  // offset of the buffer for a READ that only shows that the request before it has ended
  std::uint64_t flushed_at_;
  ServerCounts& counts_;
};

}  // namespace loch::coupled
