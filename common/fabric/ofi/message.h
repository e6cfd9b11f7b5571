// The messages between the endpoints of two workers: a piece of a SEND, the immediate of a WRITE, or the
// answer to one of these on RC.
//
// A provider delivers the messages of all transports to one receive queue, holds back messages for which no
// receive buffer is posted, and does not tell a sender whether the receiver had a RECV. In the fabric's
// contract each transport has RECVs of its own: a message on UC or UD for which none is posted is lost; one
// on RC waits for a RECV, and is refused after a time. Each message therefore carries a header, arrives in a
// buffer of the fabric, and is copied to a RECV of its transport.
#pragma once

#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <cstdint>

#include "common/fabric/verb.h"

namespace loch::fabric::ofi {

inline constexpr std::uint32_t payload_most = 4096;  // payload bytes of one piece

// Base of the objects whose address the provider returns with a completion; `kind` says whether the object is
// a Slot (request) or a MessageBuffer (outgoing, incoming).
struct Context {
  enum class Kind : std::uint8_t { request, outgoing, incoming };
  fi_context2 reserved{};  // memory that the provider uses until the operation ends
  Kind kind = Kind::request;
  // true: the fabric has given up the operation, whose target is lost; if the provider ends it after all,
  // nothing but this object is told
  bool is_abandoned = false;
};

struct MessageHeader {
  // A greeting only makes the provider connect two endpoints; its receiver ignores it.
  enum class Kind : std::uint8_t { piece, immediate, answer, greeting };
  std::uint64_t cookie;  // identifies the sender's request; the answer returns it
  std::uint32_t total;   // bytes of the whole SEND or WRITE
  std::uint32_t offset;  // offset of this piece's payload in the whole SEND, in bytes
  std::uint32_t bytes;   // payload bytes that follow the header
  std::uint32_t immediate;
  std::uint16_t from;         // node of the sender
  std::uint16_t from_worker;  // index of the sending worker on that node
  Kind kind;
  std::uint8_t transport;
  std::uint8_t has_immediate;
  std::uint8_t status;  // answer: the WcStatus with which the sender's request ends
};
static_assert(sizeof(MessageHeader) == 32 && offsetof(MessageHeader, from) == 24 &&
              offsetof(MessageHeader, status) == 31);

struct Slot;

// The buffer of one message that is being sent, or that a posted receive waits for.
struct MessageBuffer : Context {
  void* description = nullptr;  // the provider's handle of this memory; null if it needs none
  // SEND or immediate: the request that it belongs to; null for answers and greetings
  Slot* owner = nullptr;
  std::uint64_t to = 0;  // answer, greeting: the fi_addr_t of the endpoint to which it is sent
  // time in ns; an arrived RC message that has found no RECV by then is refused, and an answer that the
  // provider has not taken by then is dropped
  std::int64_t deadline = 0;
  std::uint32_t arrived = 0;  // incoming: number of bytes that arrived, the header included
  MessageHeader header{};
  std::byte payload[payload_most];
};

}  // namespace loch::fabric::ofi
