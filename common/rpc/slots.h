// The layout of memory into which peers WRITE messages: slots of equal size, in rows and columns.
//
//   slot      0          start(n)                            slot_bytes - 8   slot_bytes
//             | unused   | message of n bytes                | trailer        |
//
// A message is right-aligned, so that its last word, which the receiver polls, is at the same place for every
// size. The largest message begins with its value, if it has one: in simulation a slot stores the value's
// stamp (its first bytes, which identify it) and every byte behind the value (region.h, Elision), as an entry
// of a table does.
//
// A slot has one writer: each row belongs to a receiver, which polls the slots of the row; each column
// belongs to a sender.
//
//   request region of a server node   [server worker][client lane of the cluster]
//   reply region of a client node     [server worker of the cluster][client lane of the node]
//
// A client lane is one window slot of one client worker. Senders prepare messages in slots of the same
// layout, so that sender and receiver store the same bytes in simulation.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/fabric/fabric.h"

namespace loch::rpc {

[[nodiscard]] constexpr std::uint32_t round_up(std::uint32_t bytes, std::uint32_t to) {
  return (bytes + to - 1) / to * to;
}

// The layout of the slots of one direction (requests or replies).
class SlotShape {
 public:
  // For messages of up to `message_bytes` (a multiple of 8). The largest message begins with a value of
  // `value_bytes` (a multiple of 8; 0: none), of which memory stores `kept_value_bytes`.
  SlotShape(std::uint32_t message_bytes, std::uint32_t value_bytes, std::uint32_t kept_value_bytes)
      : message_bytes_(message_bytes), slot_bytes_(round_up(message_bytes, 64)) {
    LOCH_CHECK(message_bytes % 8 == 0 && value_bytes % 8 == 0 && value_bytes < message_bytes,
               "a message of {} bytes with a value of {}", message_bytes, value_bytes);
    const std::uint32_t head = start(message_bytes) + round_up(kept_value_bytes, 8);
    const std::uint32_t tail = message_bytes - value_bytes;
    if (head + tail < slot_bytes_)
      elision_ = {.entry_bytes = slot_bytes_, .keep_head = head, .keep_tail = tail};
  }

  [[nodiscard]] std::uint32_t message_bytes() const { return message_bytes_; }
  [[nodiscard]] std::uint32_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] std::uint32_t start(std::uint32_t message) const { return slot_bytes_ - message; }
  // Offset, within a slot, of the message's last word, which the receiver polls.
  [[nodiscard]] std::uint32_t word_at() const { return slot_bytes_ - 8; }
  [[nodiscard]] const fabric::Elision& elision() const { return elision_; }

 private:
  std::uint32_t message_bytes_;
  std::uint32_t slot_bytes_;
  fabric::Elision elision_;
};

// The slots for messages in one region, in rows and columns, from the region's first byte on.
class SlotGrid {
 public:
  SlotGrid(const SlotShape& shape, std::uint32_t rows, std::uint32_t columns)
      : shape_(shape), rows_(rows), columns_(columns) {}

  [[nodiscard]] const SlotShape& shape() const { return shape_; }
  [[nodiscard]] std::uint32_t rows() const { return rows_; }
  [[nodiscard]] std::uint32_t columns() const { return columns_; }
  [[nodiscard]] std::uint64_t bytes() const { return std::uint64_t{rows_} * columns_ * shape_.slot_bytes(); }
  [[nodiscard]] fabric::RegionSpec region(std::string name, bool is_written_remotely) const {
    fabric::RegionSpec spec{.name = std::move(name), .bytes = bytes()};
    spec.remote_write = is_written_remotely;
    spec.elision = shape_.elision();
    return spec;
  }

  [[nodiscard]] std::uint64_t slot(std::uint32_t row, std::uint32_t column) const {
    return (std::uint64_t{row} * columns_ + column) * shape_.slot_bytes();
  }
  // message() returns the offset of the first byte of a message of `bytes` bytes, word() that of its last
  // word, which the receiver polls.
  [[nodiscard]] std::uint64_t message(std::uint32_t row, std::uint32_t column, std::uint32_t bytes) const {
    return slot(row, column) + shape_.start(bytes);
  }
  [[nodiscard]] std::uint64_t word(std::uint32_t row, std::uint32_t column) const {
    return slot(row, column) + shape_.word_at();
  }

  // The words that a receiver polls: the last word of each slot of a row, by column.
  [[nodiscard]] fabric::WatchSet watch(const fabric::Region& region, std::uint32_t row,
                                       bool (*ready)(void* context, std::uint32_t column, std::uint64_t word),
                                       void* context) const {
    return {.region = &region,
            .offset = word(row, 0),
            .stride = shape_.slot_bytes(),
            .count = columns_,
            .ready = ready,
            .context = context};
  }

 private:
  SlotShape shape_;
  std::uint32_t rows_;
  std::uint32_t columns_;
};

// The nodes that take part: all nodes are servers and clients, or the first `server_nodes` are servers and
// the others clients.
struct Parties {
  std::uint32_t nodes = 1;
  std::uint32_t servers = 1;  // server workers per node
  std::uint32_t clients = 1;  // client workers per node
  std::uint32_t window = 1;   // outstanding operations per client worker
  std::uint32_t server_nodes = 0;

  [[nodiscard]] std::uint32_t serving_nodes() const { return server_nodes == 0 ? nodes : server_nodes; }
  [[nodiscard]] bool serves(fabric::NodeId node) const { return node < serving_nodes(); }
  [[nodiscard]] bool asks(fabric::NodeId node) const { return node >= server_nodes; }

  // number of client lanes (window slots) of a node
  [[nodiscard]] std::uint32_t lanes() const { return clients * window; }
  [[nodiscard]] std::uint32_t lane(std::uint32_t client, std::uint32_t window_slot) const {
    return client * window + window_slot;
  }
  // Columns of a request region: one for each client lane (window slot of a client worker) of the whole
  // cluster.
  [[nodiscard]] std::uint32_t columns() const { return (nodes - server_nodes) * lanes(); }
  [[nodiscard]] std::uint32_t column(fabric::NodeId node, std::uint32_t lane) const {
    return (node - server_nodes) * lanes() + lane;
  }
  [[nodiscard]] fabric::NodeId node_of(std::uint32_t column) const {
    return static_cast<fabric::NodeId>(server_nodes + column / lanes());
  }
  [[nodiscard]] std::uint32_t lane_of(std::uint32_t column) const { return column % lanes(); }
  // Rows of a reply region: one for each server worker of the whole cluster.
  [[nodiscard]] std::uint32_t rows() const { return serving_nodes() * servers; }
  [[nodiscard]] std::uint32_t row(fabric::NodeId node, std::uint32_t server) const {
    return node * servers + server;
  }

  [[nodiscard]] SlotGrid requests(const SlotShape& shape) const { return {shape, servers, columns()}; }
  [[nodiscard]] SlotGrid replies(const SlotShape& shape) const { return {shape, rows(), lanes()}; }
};

}  // namespace loch::rpc
