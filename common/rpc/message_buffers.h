// What both ends of a message channel do with their buffers; for message_*.cc alone.
#pragma once

#include "common/rpc/message_channel.h"

namespace loch::rpc::detail {

constexpr std::uint32_t grh_bytes = 40;

// Gives buffer number `slot` of the node's receive region to the NIC.
void post_receive(const MessageShape& shape, const MessageRegions& regions, fabric::Worker& worker,
                  std::uint64_t slot);
[[nodiscard]] const std::byte* payload_of(const MessageShape& shape, const MessageRegions& regions,
                                          const fabric::Received& message);
// A SEND of buffer number `slot` of the node's send region to a worker.
[[nodiscard]] fabric::WorkRequest message_to(const MessageShape& shape, const MessageRegions& regions,
                                             std::uint64_t slot, fabric::NodeId node, std::uint32_t worker,
                                             MessageTag tag, std::uint32_t length);

}  // namespace loch::rpc::detail
