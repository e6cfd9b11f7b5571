// Work requests on the buffers of a message channel, shared by its two ends; for message_*.cc only.
#pragma once

#include "common/rpc/message_channel.h"

namespace loch::rpc::detail {

constexpr std::uint32_t grh_bytes = 40;

// Posts buffer number `slot` of the node's receive region as a RECV.
void post_receive(const MessageShape& shape, const MessageRegions& regions, fabric::Worker& worker,
                  std::uint64_t slot);
[[nodiscard]] const std::byte* payload_of(const MessageShape& shape, const MessageRegions& regions,
                                          const fabric::Received& message);
// Makes a SEND of buffer number `slot` of the node's send region to a worker.
[[nodiscard]] fabric::WorkRequest message_to(const MessageShape& shape, const MessageRegions& regions,
                                             std::uint64_t slot, fabric::NodeId node, std::uint32_t worker,
                                             MessageTag tag, std::uint32_t length);

}  // namespace loch::rpc::detail
