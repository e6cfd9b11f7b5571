// The cost of a request and its reply through the kernel's TCP, on the machines of Pilaf (USENIX ATC 2013):
// AMD or Intel processors of 2012, Ubuntu 12.10, one core for the server.
//
// Calibrated only on that paper's microbenchmarks, in which a server answers a request of n bytes with one of
// 10 bytes, with one core busy (table 1) or without other load (figure 1):
//
//   million requests a second       16 B     1024 B    4096 B     hence ns of CPU time a request
//   IP over InfiniBand              0.126    0.122     0.028      7937     8197    35714
//   Ethernet of 1 Gb/s              0.120    0.068     0.029      8333    14706    34483
//   round trip, small, both         "over 60 us"
//
// Three numbers for each link determine three constants: a fixed part, a part for each byte, and a part for
// each segment of a request after its first. IP over InfiniBand in datagrams of 2044 bytes carries 1992 bytes
// in a segment, so 4096 bytes are three segments. On Ethernet, the part for each byte also explains 4096
// bytes (34127 ns), and the link is saturated at 28.6 K requests a second, so the part for each segment is 0.
//
// Further assumptions: a byte of a reply costs as much as a byte of a request (the paper varies requests
// only); a client pays what the server pays, mirrored, with the fixed part divided equally between sending
// and receiving; the rest of the round trip (interrupt moderation, wake-ups, the switch) occupies no core and
// is the same in both directions.
#pragma once

#include <cstdint>
#include <vector>

#include "baselines/settings.h"
#include "baselines/text.h"
#include "common/base/units.h"

namespace loch::baselines {

struct KernelPath {
  double request_ns = 0;  // CPU time in ns for one request and its reply
  double byte_ns = 0;     // ns of CPU time for each byte sent or received
  double segment_ns = 0;  // ns of CPU time for each received segment after a message's first
  std::uint32_t segment_bytes = 0;
  Nanos one_way_ns = 0;     // latency that occupies no core, in addition to the simulated fabric's latency
  double link_byte_ns = 0;  // ns for each byte on a separate link; 0: messages use the fabric's link
  // bytes of headers around each segment, on a link that is modelled separately from the fabric
  std::uint32_t frame_bytes = 0;

  [[nodiscard]] std::uint32_t segments(std::uint64_t bytes) const;
  // cpu_to_receive() and cpu_to_send(): CPU time in ns for one message of `bytes` bytes. A server receives
  // and sends one message for each request, and so does a client.
  [[nodiscard]] Nanos cpu_to_receive(std::uint64_t bytes) const;
  [[nodiscard]] Nanos cpu_to_send(std::uint64_t bytes) const;
  // The time for which a message of `bytes` bytes occupies its link.
  [[nodiscard]] Nanos on_link(std::uint64_t bytes) const;
};

[[nodiscard]] const KernelPath& kernel_path(Link link);

// CPU time of a small request in memcached or Redis beyond that of a server that only echoes: event loop,
// parsing, table, allocation, locks. The real servers were compared with an echo server over loopback
// (server_work.py, docs/protocols/memcached.md); their additional time, as a fraction of the echo's, is
// charged relative to the echo of Pilaf's table 1, because ratios transfer between machines better than
// times. No other published number is used. Since the published echo also drives a NIC and takes its
// interrupts, the charge is rather too high.
//
// Assumed: the published microbenchmark's server is an event loop. Redis before 3.0 sent each reply in the
// next pass of its event loop; the two further epoll_ctl calls that this takes are not charged.
[[nodiscard]] Nanos beyond_echo(System system, OpKind op);

// Models network links that carry one message at a time. A message occupies its sender's link and,
// overlapping in time, its receiver's link. One object holds the links of all nodes of a simulation and needs
// no locks, because a simulation has one thread.
class Links {
 public:
  explicit Links(std::uint32_t nodes) : sends_until_(nodes, 0), receives_until_(nodes, 0) {}
  // The time at which a message that is ready at `now` has left the receiver's link.
  [[nodiscard]] Nanos pass(fabric::NodeId from, fabric::NodeId to, Nanos now, Nanos duration);

 private:
  std::vector<Nanos> sends_until_, receives_until_;
};

}  // namespace loch::baselines
