// Sizes and registers the buffers of a message channel, posts RECVs for them, and makes the SENDs from them.
#include "common/rpc/message_channel.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/rpc/message_buffers.h"

namespace loch::rpc {

std::uint32_t MessageShape::server_receives() const {
  // Two RECVs for each window slot of each client worker of the cluster, and some more, but at most
  // most_receives: one for the slot's request, and one for a repetition that arrives before the request was
  // served.
  const std::uint64_t wanted = std::uint64_t{nodes} * lanes() * 2 + 16;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, most_receives));
}

fabric::Elision MessageShape::elision() const {
  if (kept_bytes >= most_bytes()) return {};
  return {.entry_bytes = stride(), .keep_head = head + (kept_bytes + 7) / 8 * 8, .keep_tail = 0};
}

Result<MessageRegions> register_messages(fabric::Fabric& fabric, fabric::NodeId node,
                                         const MessageShape& shape) {
  const fabric::Capabilities& can = fabric.capabilities();
  const auto refuse = [&](std::string message) {
    return fail(ErrorCode::invalid_argument, shape.name + ": " + std::move(message));
  };
  if (shape.transport == fabric::Transport::ud && shape.most_bytes() > can.mtu_bytes) {
    return refuse(fmt::format("messages of {} bytes do not fit a UD datagram of {}", shape.most_bytes(),
                              can.mtu_bytes));
  }
  if (shape.window > 256) {
    return refuse(fmt::format("window: {} lanes do not fit the tag; expected at most 256", shape.window));
  }
  if (shape.client_receives() > can.recv_queue_depth) {
    return refuse(fmt::format("window: {} lanes need {} receive buffers; the device has {}", shape.window,
                              shape.client_receives(), can.recv_queue_depth));
  }
  const std::uint64_t sends = shape.lanes() + std::uint64_t{shape.server_workers} * shape.reply_buffers;
  const std::uint64_t receives = std::uint64_t{shape.client_workers} * shape.client_receives() +
                                 std::uint64_t{shape.server_workers} * shape.server_receives();
  MessageRegions regions;
  LOCH_ASSIGN(regions.send, fabric.register_region(node, {.name = shape.name + ".send",
                                                          .bytes = sends * shape.stride(),
                                                          .elision = shape.elision()}));
  LOCH_ASSIGN(regions.receive, fabric.register_region(node, {.name = shape.name + ".receive",
                                                             .bytes = receives * shape.stride(),
                                                             .elision = shape.elision()}));
  return regions;
}

namespace detail {

void post_receive(const MessageShape& shape, const MessageRegions& regions, fabric::Worker& worker,
                  std::uint64_t slot) {
  const std::uint32_t grh = shape.transport == fabric::Transport::ud ? grh_bytes : 0;
  const std::uint64_t at = slot * shape.stride() + MessageShape::head - grh;
  worker.post_recv(shape.transport, {regions.receive, at}, shape.most_bytes() + grh, slot);
}

const std::byte* payload_of(const MessageShape& shape, const MessageRegions& regions,
                            const fabric::Received& message) {
  return regions.receive->at(message.user * shape.stride() + MessageShape::head);
}

fabric::WorkRequest message_to(const MessageShape& shape, const MessageRegions& regions, std::uint64_t slot,
                               fabric::NodeId node, std::uint32_t worker, MessageTag tag,
                               std::uint32_t length) {
  fabric::WorkRequest request;
  request.verb = fabric::Verb::send;
  request.transport = shape.transport;
  request.peer = node;
  request.peer_worker = static_cast<std::uint16_t>(worker);
  request.local = {regions.send, slot * shape.stride() + MessageShape::head};
  request.length = length;
  request.has_immediate = true;
  request.immediate = tag.pack();
  return request;
}

}  // namespace detail
}  // namespace loch::rpc
