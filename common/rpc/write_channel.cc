// Registers the request and reply slots of local nodes, and looks up those of other nodes.
#include "common/rpc/write_channel.h"

#include <algorithm>
#include <utility>

namespace loch::rpc {

WriteChannel::WriteChannel(ChannelConfig config)
    : config_(std::move(config)),
      requests_(config_.parties.requests(config_.request)),
      replies_(config_.parties.replies(config_.reply)),
      staged_requests_(config_.parties.replies(config_.request)),
      staged_replies_(config_.parties.requests(config_.reply)) {
  LOCH_CHECK(config_.request_bytes[take_over_code] == 0 && config_.reply_bytes[take_over_code] == 0,
             "code {} is the channel's own", take_over_code);
  config_.request_bytes[take_over_code] = request_tail_bytes;
  config_.reply_bytes[take_over_code] = trailer_bytes;
}

Result<> WriteChannel::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  Node own;
  if (config_.parties.serves(node)) {
    LOCH_ASSIGN(own.requests, fabric.register_region(node, requests_.region(region("requests"), true)));
    LOCH_ASSIGN(own.staged_replies,
                fabric.register_region(node, staged_replies_.region(region("staged-replies"), false)));
  }
  if (config_.parties.asks(node)) {
    LOCH_ASSIGN(own.replies, fabric.register_region(node, replies_.region(region("replies"), true)));
    LOCH_ASSIGN(own.staged_requests,
                fabric.register_region(node, staged_requests_.region(region("staged-requests"), false)));
  }
  nodes_[node] = std::move(own);
  forget_requests(node);
  return {};
}

void WriteChannel::forget_requests(fabric::NodeId node) {
  std::vector<std::shared_ptr<Duplicates>>& known = nodes_.at(node).known;
  known.clear();
  for (std::uint32_t i = 0; config_.parties.serves(node) && i < config_.parties.servers; ++i)
    known.push_back(std::make_shared<Duplicates>(config_.parties.columns()));
}

Result<> WriteChannel::connect(fabric::Fabric& fabric) {
  fabric_ = &fabric;
  peers_.clear();
  for (std::uint32_t i = 0; i < config_.parties.nodes; ++i) {
    LOCH_ASSIGN(const Peer peer, look_up(static_cast<fabric::NodeId>(i)));
    peers_.push_back(peer);
  }
  return {};
}

Result<WriteChannel::Peer> WriteChannel::look_up(fabric::NodeId node) const {
  Peer peer;
  if (config_.parties.serves(node)) {
    LOCH_ASSIGN(peer.requests, fabric_->lookup(node, region("requests")));
  }
  if (config_.parties.asks(node)) {
    LOCH_ASSIGN(peer.replies, fabric_->lookup(node, region("replies")));
  }
  return peer;
}

void WriteChannel::restart_node(fabric::NodeId node) {
  nodes_.at(node).is_restarted = true;
  forget_requests(node);
}

const WriteChannel::Node& WriteChannel::local(fabric::NodeId node) const {
  const auto found = nodes_.find(node);
  LOCH_CHECK(found != nodes_.end(), "node {} is not of this process", node);
  return found->second;
}

bool WriteChannel::refresh(fabric::NodeId node, std::uint32_t epoch, Peer* peer) const {
  if (peer->epoch == epoch) return true;
  if (config_.flaws.keeps_old_keys) {
    peer->epoch = epoch;
    return true;
  }
  // A node that has restarted has new rkeys; for any other node, the look-up returns the same rkeys as
  // before.
  const Result<Peer> fresh = look_up(node);
  if (!fresh.has_value()) return false;
  *peer = *fresh;
  peer->epoch = epoch;
  return true;
}

std::uint64_t WriteChannel::memory_bytes() const {
  std::uint64_t bytes = 0;
  for (const SlotGrid* grid : {&requests_, &replies_, &staged_requests_, &staged_replies_})
    bytes += grid->shape().elision().physical_bytes(grid->bytes());
  return bytes;
}

}  // namespace loch::rpc
