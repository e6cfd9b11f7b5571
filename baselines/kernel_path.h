// What a request and its reply cost by way of the kernel's TCP, on the machines of Pilaf (USENIX ATC 2013):
// two AMD or Intel processors of 2012, Ubuntu 12.10, one core for the server.
//
// Calibrated on that paper's microbenchmarks alone, in which a server answers a request of n bytes with one
// of 10 bytes, one core busy (table 1) or nothing busy (figure 1):
//
//   million requests a second       16 B     1024 B    4096 B     so ns of the core a request
//   IP over InfiniBand              0.126    0.122     0.028      7937     8197    35714
//   Ethernet of 1 Gb/s              0.120    0.068     0.029      8333    14706    34483
//   round trip, small, both         "over 60 us"
//
// Three numbers a link make three constants: a fixed part, a part by byte, and a part for each segment of a
// request behind its first. IP over InfiniBand in datagrams of 2044 bytes carries 1992 bytes a segment, so
// 4096 bytes are three. On Ethernet the part by byte explains 4096 bytes, too (34127 ns), and the link is
// full at 28.6 K requests a second: nothing is left for segments.
//
// What is assumed beyond that: a byte of a reply costs what a byte of a request does (the paper varies
// requests only); a client pays what the server pays, mirrored: the fixed part is half for sending and half
// for receiving; the rest of the round trip (interrupts held back, wake-ups, the switch) is no core's work,
// and the same both ways.
#pragma once

#include <cstdint>
#include <vector>

#include "baselines/settings.h"
#include "baselines/text.h"
#include "common/base/units.h"

namespace loch::baselines {

struct KernelPath {
  double request_ns = 0;  // CPU time for one request and its reply
  double byte_ns = 0;     // for each byte sent or received
  double segment_ns = 0;  // for each received segment after a message's first
  std::uint32_t segment_bytes = 0;
  Nanos one_way_ns = 0;           // latency that nobody works in, beyond what the fabric's messages take
  double link_byte_ns = 0;        // of a link of its own; 0: the fabric's link
  std::uint32_t frame_bytes = 0;  // on that link, around each segment

  [[nodiscard]] std::uint32_t segments(std::uint64_t bytes) const;
  // CPU time of taking in and of sending one message. One of each is a request served, or an answer had.
  [[nodiscard]] Nanos cpu_to_receive(std::uint64_t bytes) const;
  [[nodiscard]] Nanos cpu_to_send(std::uint64_t bytes) const;
  // The time for which a message of `bytes` bytes occupies its link.
  [[nodiscard]] Nanos on_link(std::uint64_t bytes) const;
};

[[nodiscard]] const KernelPath& kernel_path(Link link);

// CPU time that a small request takes in memcached or Redis beyond what it takes in a server that only
// echoes: their event loops, parsing, tables, allocation, locks. The real servers were set beside an echo
// over loopback (server_work.py, docs/protocols/memcached.md), and what they take more, as a share of the
// echo, is charged on table 1's echo: ratios travel better between machines than times. Nothing else of a
// paper is in it. That echo drives a NIC and takes its interrupts, too, so that a share of it is rather too
// much.
//
// Assumed: the microbenchmark's server is an event loop. Not charged: that Redis until 3.0 sent each reply in
// its loop's next pass, with two epoll_ctl more.
[[nodiscard]] Nanos beyond_echo(System system, OpKind op);

// Links that carry one message at a time, at the sender and again at the receiver, where it may start
// while it is still on the first. One for all nodes of a simulation, which is one thread.
class Links {
 public:
  explicit Links(std::uint32_t nodes) : sends_until_(nodes, 0), receives_until_(nodes, 0) {}
  // When a message that is ready at `now` has left the receiver's link.
  [[nodiscard]] Nanos pass(fabric::NodeId from, fabric::NodeId to, Nanos now, Nanos duration);

 private:
  std::vector<Nanos> sends_until_, receives_until_;
};

}  // namespace loch::baselines
