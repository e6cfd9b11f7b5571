// A request to the NIC, the receiver of its completion, and the counts of the store operation that posts it.
#pragma once

#include <cstdint>

#include "common/base/units.h"
#include "common/fabric/region.h"
#include "common/fabric/verb.h"

namespace loch::fabric {

// Counts of the work requests and bytes of one store operation, such as a GET. A protocol attaches the counts
// to each work request that it posts for the operation, and the worker's RequestCounter adds to them.
struct OpStats {
  std::uint32_t read = 0, write = 0, cas = 0, faa = 0, send = 0, recv = 0;
  // payload bytes of the operation that cross the network in either direction, without headers
  std::uint64_t payload_bytes = 0;
  std::uint64_t wire_bytes = 0;  // bytes on the wire, with headers, ACKs and responses (wire.h)
  std::uint32_t index_read = 0;  // number of READs that fetched index entries; the protocol counts them
  std::uint32_t index_cas = 0;
  std::uint32_t cache_hits = 0;
  std::uint32_t local_accesses = 0;  // accesses to this node's own memory, without RDMA
};

struct WorkRequest;

// The receiver of a completion. `fn` runs on the worker's thread, outside any coroutine.
struct CompletionSink {
  void (*fn)(CompletionSink* self, WorkRequest& done) = nullptr;
};

// One work request. It lives in its awaiter's frame until its completion (rule 5 of fabric.h).
struct WorkRequest {
  Verb verb = Verb::read;
  Transport transport = Transport::rc;
  bool is_signaled = true;
  bool is_inline = false;
  bool is_fenced = false;
  bool has_immediate = false;
  WcStatus status = WcStatus::success;  // set on completion
  // index of the queue pair among this worker's queue pairs to `peer`; for UD, among all its UD queue pairs
  std::uint8_t lane = 0;
  NodeId peer = 0;
  std::uint16_t peer_worker = 0;  // SEND: the receiving worker's index on its node
  std::uint32_t length = 0;       // bytes; 8 for CAS and FAA
  std::uint32_t immediate = 0;
  // Local buffer: source of WRITE and SEND, destination of READ. CAS and FAA: destination of the old word, or
  // no region if `result` suffices, which has the old word after the completion, in host byte order.
  LocalSlice local;
  RemoteRegion remote;  // the region that a READ, WRITE, CAS or FAA accesses
  std::uint64_t remote_offset = 0;
  std::uint64_t compare = 0;       // CAS: the expected word
  std::uint64_t operand = 0;       // CAS: the new word; FAA: the addend
  std::uint64_t result = 0;        // set on completion of CAS and FAA: the old word
  OpStats* stats = nullptr;        // counters of the operation that the request belongs to; may be null
  WorkRequest* next = nullptr;     // the next request of the chain
  CompletionSink* sink = nullptr;  // receives the completion; null: the request is unsignaled
};

// Makes a READ, WRITE, CAS or FAA of `length` bytes at `offset` of the region, from or to the local buffer.
// The caller sets the operands of CAS and FAA.
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
