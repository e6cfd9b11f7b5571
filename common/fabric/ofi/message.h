// What the endpoints of two workers send each other: a SEND in pieces, the immediate of a WRITE, or the
// answer to a SEND on RC.
//
// A provider delivers messages of all transports to one queue of receives, keeps those that no receive waits
// for, and tells the sender nothing of its receiver. RECVs differ by transport, though; a message on UC or UD
// that finds none is lost, and one on RC waits for a RECV, and fails in the end. So each message carries a
// header, arrives in a buffer of the fabric, and is copied to the RECV that its transport has.
#pragma once

#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <cstdint>

#include "common/fabric/verb.h"

namespace loch::fabric::ofi {

inline constexpr std::uint32_t payload_most = 4096;  // payload bytes of one piece

// By the kind, a completion is led to its object: the provider returns the address of a Context.
struct Context {
  enum class Kind : std::uint8_t { request, outgoing, incoming };
  fi_context2 reserved{};  // for the provider, as long as the operation lasts
  Kind kind = Kind::request;
};

struct MessageHeader {
  enum class Kind : std::uint8_t { piece, immediate, answer };
  std::uint64_t cookie;  // names the sender's request, and is sent back by the answer
  std::uint32_t total;   // bytes of the whole SEND or WRITE
  std::uint32_t offset;  // of this piece in the SEND
  std::uint32_t bytes;   // payload bytes that follow the header
  std::uint32_t immediate;
  std::uint16_t from;         // the sender's node
  std::uint16_t from_worker;  // and worker
  Kind kind;
  std::uint8_t transport;
  std::uint8_t has_immediate;
  std::uint8_t status;  // answer: the WcStatus of the request
};
static_assert(sizeof(MessageHeader) == 32 && offsetof(MessageHeader, from) == 24 &&
              offsetof(MessageHeader, status) == 31);

struct Slot;

// A buffer that is being sent, or waits for a message.
struct MessageBuffer : Context {
  void* description = nullptr;  // the provider's handle of this memory; null if it needs none
  Slot* owner = nullptr;        // outgoing: the request that the message belongs to; null for answers
  std::uint64_t to = 0;         // outgoing: the target's fi_addr_t, for answers that wait
  // incoming: when a message on RC that found no RECV is refused; an answer: when it is given up
  std::int64_t deadline = 0;
  std::uint32_t arrived = 0;  // incoming: bytes with the header
  MessageHeader header{};
  std::byte payload[payload_most];
};

}  // namespace loch::fabric::ofi
