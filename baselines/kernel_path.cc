// CPU time and latency of a message through the kernel's TCP, calibrated on the published microbenchmark of
// Pilaf.
#include "baselines/kernel_path.h"

#include <algorithm>

namespace loch::baselines {
namespace {

// Bytes of a reply in Pilaf's microbenchmark (Mitchell et al., USENIX ATC 2013, table 1).
constexpr double table_reply = 10;
constexpr double by_byte(double ns_16, double ns_1024) { return (ns_1024 - ns_16) / (1024 - 16); }
constexpr double fixed(double ns_16, double byte_ns) { return ns_16 - byte_ns * (16 + table_reply); }
// CPU time in ns of each TCP segment of a request other than the first. A request of 4096 bytes has two such
// segments, which account for the CPU time that the fixed part and the part for each byte do not explain.
constexpr double by_segment(double ns_4096, double fixed_ns, double byte_ns) {
  return (ns_4096 - fixed_ns - byte_ns * (4096 + table_reply)) / 2;
}
// CPU time in ns that the simulated fabric itself charges for receiving and sending a message (posting,
// doorbell, polling and completions of the profile connectx2-20g-ib). ns_of() subtracts this time from the
// published CPU time of a request, so that it is not charged twice.
constexpr double fabric_cpu = 300;
constexpr double ns_of(double million_a_second) { return 1e3 / million_a_second - fabric_cpu; }

constexpr double ipoib_byte = by_byte(ns_of(0.126), ns_of(0.122));
constexpr double ipoib_fixed = fixed(ns_of(0.126), ipoib_byte);
constexpr double ethernet_byte = by_byte(ns_of(0.120), ns_of(0.068));

// The published round trip of 60 us (Pilaf, figure 1), in ns. one_way() subtracts from it the CPU time of
// client and server for a small request; 8 us for the simulated fabric's two messages and the wake-ups
// (figure 1 has verbs messages below 10 us); and, on Ethernet, 2 us for two small frames.
constexpr double round_trip = 60'000, fabric_messages = 8'000, small_frames = 2'000;
constexpr Nanos one_way(double ns_16, double elsewhere) {
  return static_cast<Nanos>((round_trip - 2 * (ns_16 + fabric_cpu) - elsewhere) / 2);
}

constexpr KernelPath ipoib = {
    .request_ns = ipoib_fixed,
    .byte_ns = ipoib_byte,
    .segment_ns = by_segment(ns_of(0.028), ipoib_fixed, ipoib_byte),
    .segment_bytes = 2044 - 20 - 32,  // IPoIB's MTU minus the headers of IP and of TCP with time stamps
    .one_way_ns = one_way(ns_of(0.126), fabric_messages),
};

constexpr KernelPath ethernet = {
    .request_ns = fixed(ns_of(0.120), ethernet_byte),
    .byte_ns = ethernet_byte,
    .segment_ns = 0,
    .segment_bytes = 1500 - 20 - 32,
    .one_way_ns = one_way(ns_of(0.120), fabric_messages + small_frames),
    .link_byte_ns = 8,            // 1 Gb/s
    .frame_bytes = 38 + 20 + 32,  // Ethernet with preamble, checksum and inter-frame gap; IP; TCP
};

// CPU time of a small request divided by that of an echo request, as printed by baselines/server_work.py
// (ratio of the minima of all rounds) for Debian's memcached 1.6.18 and Redis 7.0.15. Four measurements on a
// busy machine lie between 1.10 and 1.37 (docs/protocols/memcached.md), so each ratio is uncertain by 0.15.
constexpr double memcached_get = 1.28, memcached_put = 1.29, redis_get = 1.25, redis_put = 1.26;
// CPU time in ns of one published echo over IP over InfiniBand. It is used for Ethernet too, because a
// server's work beyond an echo does not depend on the link.
constexpr double table_echo = 1e3 / 0.126;

}  // namespace

std::uint32_t KernelPath::segments(std::uint64_t bytes) const {
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (bytes + segment_bytes - 1) / segment_bytes));
}

Nanos KernelPath::cpu_to_receive(std::uint64_t bytes) const {
  return cpu_to_send(bytes) + static_cast<Nanos>(segment_ns * (segments(bytes) - 1));
}

Nanos KernelPath::cpu_to_send(std::uint64_t bytes) const {
  return static_cast<Nanos>(request_ns / 2 + byte_ns * static_cast<double>(bytes));
}

Nanos KernelPath::on_link(std::uint64_t bytes) const {
  return static_cast<Nanos>(link_byte_ns *
                            static_cast<double>(bytes + std::uint64_t{segments(bytes)} * frame_bytes));
}

const KernelPath& kernel_path(Link link) { return link == Link::ipoib ? ipoib : ethernet; }

Nanos beyond_echo(System system, OpKind op) {
  // DELETE and INSERT were not measured; they are charged like a PUT, because they look up the key in the
  // same table.
  const double get = system == System::memcached ? memcached_get : redis_get;
  const double put = system == System::memcached ? memcached_put : redis_put;
  return static_cast<Nanos>(table_echo * ((op == OpKind::get ? get : put) - 1));
}

Nanos Links::pass(fabric::NodeId from, fabric::NodeId to, Nanos now, Nanos duration) {
  const Nanos start = std::max(now, sends_until_[from]);
  sends_until_[from] = start + duration;
  const Nanos end = std::max(start, receives_until_[to]) + duration;
  receives_until_[to] = end;
  return end;
}

}  // namespace loch::baselines
