// One request to the NIC, who hears of its completion, and what it counts for.
#pragma once

#include <cstdint>

#include "common/base/units.h"
#include "common/fabric/region.h"
#include "common/fabric/verb.h"

namespace loch::fabric {

// Work requests and bytes of one operation of a store (one GET, say). A protocol hangs it on each
// work request that it posts for the operation; the count decorator fills it in.
struct OpStats {
  std::uint32_t read = 0, write = 0, cas = 0, faa = 0, send = 0, recv = 0;
  std::uint64_t payload_bytes = 0;  // data that crosses the network for it, both ways, no headers
  std::uint64_t wire_bytes = 0;     // with every header, ACK and response (wire.h)
  std::uint32_t index_read = 0;     // the part of `read` that reads index entries (protocol's word)
  std::uint32_t index_cas = 0;
  std::uint32_t cache_hits = 0;
  std::uint32_t local_accesses = 0;  // served from this node's memory without RDMA
};

struct WorkRequest;

// The receiver of a completion. `fn` runs on the worker's thread, outside any coroutine.
struct CompletionSink {
  void (*fn)(CompletionSink* self, WorkRequest& done) = nullptr;
};

// One work request. It lives in its awaiter's frame until its completion (rule 5).
struct WorkRequest {
  Verb verb = Verb::read;
  Transport transport = Transport::rc;
  bool is_signaled = true;
  bool is_inline = false;
  bool is_fenced = false;
  bool has_immediate = false;
  WcStatus status = WcStatus::success;  // out
  std::uint8_t lane = 0;                // which of the worker's queue pairs to that peer
  NodeId peer = 0;
  std::uint16_t peer_worker = 0;  // SEND: the receiving worker's index on its node
  std::uint32_t length = 0;       // bytes; 8 for CAS and FAA
  std::uint32_t immediate = 0;
  // Local buffer: source of WRITE and SEND, destination of READ. CAS and FAA: where the old word is
  // placed, or no region; either way `result` holds it after the completion, in host byte order.
  LocalSlice local;
  RemoteRegion remote;  // READ, WRITE, CAS, FAA
  std::uint64_t remote_offset = 0;
  std::uint64_t compare = 0;       // CAS
  std::uint64_t operand = 0;       // CAS: the new word; FAA: what is added
  std::uint64_t result = 0;        // out: CAS, FAA: the old word, once it is retired
  OpStats* stats = nullptr;        // may be null
  WorkRequest* next = nullptr;     // the rest of the chain
  CompletionSink* sink = nullptr;  // null: nobody waits (unsignaled)
};

// A READ, WRITE, CAS or FAA (whose operands are the caller's to fill in) of `length` bytes at `offset` of
// that region, from or to the local buffer.
[[nodiscard]] inline WorkRequest one_sided(Verb verb, const RemoteRegion& remote, std::uint64_t offset,
                                           LocalSlice local, std::uint32_t length, OpStats* stats) {
  WorkRequest request;
  request.verb = verb;
  request.peer = remote.node;
  request.remote = remote;
  request.remote_offset = offset;
  request.local = local;
  request.length = length;
  request.stats = stats;
  return request;
}

struct Completion {
  WcStatus status = WcStatus::success;
  std::uint64_t result = 0;  // CAS, FAA: the old word
  [[nodiscard]] bool ok() const { return status == WcStatus::success; }
};

}  // namespace loch::fabric
