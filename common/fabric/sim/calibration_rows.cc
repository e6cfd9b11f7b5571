// The microbenchmarks to which the profile of each NIC was fitted. An identifier such as "V174" names a
// published measurement in the output of `loch calibrate`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "common/fabric/pcie.h"
#include "common/fabric/sim/calibrate.h"
#include "common/fabric/sim/microbenchmark.h"

namespace loch::fabric::sim {
namespace {

constexpr auto rc = Transport::rc, uc = Transport::uc, ud = Transport::ud;
// work requests posted with one doorbell (Kalia et al. 2016, section 5.2.1)
constexpr std::uint32_t batch = 16;

// ---- Kinds of microbenchmarks ------------------------------------------------------------------
Microbenchmark inbound(Verb verb, std::uint32_t bytes, Transport transport = rc) {
  Microbenchmark b;
  b.traffic.verb = verb;
  b.traffic.transport = transport;
  b.traffic.bytes = bytes;
  b.traffic.is_inline = true;
  return b;
}
// A microbenchmark in which one node posts requests of `bytes` bytes without batching, by MMIO if the NIC
// supports it; of requests on UD or UC every 16th is signaled.
Microbenchmark outbound(Verb verb, std::uint32_t bytes, Transport transport) {
  Microbenchmark b = inbound(verb, bytes, transport);
  b.is_outbound = true;
  b.workers = 8;
  if (transport != rc) {
    b.traffic.unsignaled = batch - 1;
    b.window = 4;
  }
  return b;
}
Microbenchmark batched(std::uint32_t bytes, std::uint32_t cores = 8, std::uint32_t queue_pairs = 4) {
  Microbenchmark b = outbound(Verb::send, bytes, ud);
  b.workers = cores;
  b.traffic.unsignaled = 0;
  b.traffic.batch = batch;
  b.traffic.lanes = queue_pairs;
  b.window = 8;
  return b;
}
Microbenchmark alone(Verb verb, std::uint32_t bytes) {
  Microbenchmark b;
  b.traffic.verb = verb;
  b.traffic.bytes = bytes;
  b.peers = b.workers = b.window = 1;
  return b;
}
Microbenchmark echo(std::uint32_t bytes, std::uint32_t reply, Transport transport) {
  Microbenchmark b = inbound(Verb::send, bytes, transport);
  b.is_echo = true;
  b.reply_bytes = reply;
  b.window = 4;
  return b;
}
// A microbenchmark in which one node sends READs or WRITEs of 8 bytes to `cores` other nodes, with one
// posting thread on each of `cores` cores. A thread posts `window` requests and waits for all of them before
// it posts the next ones.
Microbenchmark rounds(Verb verb, std::uint32_t cores, std::uint32_t window) {
  Microbenchmark b = outbound(verb, 8, rc);
  b.peers = b.workers = cores;
  b.window = window;
  b.in_rounds = true;
  b.warm_up = 200'000;
  b.duration = 600'000;
  return b;
}
// Returns the benchmark `b` with so many outstanding requests that even the fastest NIC is busy.
Microbenchmark many(Microbenchmark b) {
  b.peers = b.workers = b.receivers = 14;
  b.in_flight = 1024;
  if (b.window > 8) b.window = 8;
  return b;
}
// Returns the benchmark `b` with fewer outstanding requests: enough to keep an older NIC busy, and so few
// that no long queue builds up, since the time in which it fills would be measured too.
Microbenchmark few(Microbenchmark b) {
  b.window = std::min(b.window, 2u);
  b.warm_up = 500'000;
  b.duration = 4'000'000;
  return b;
}

// ---- Rows of the calibration table -------------------------------------------------------------
class Rows {
 public:
  Rows(const HardwareProfile& profile, CalibrationTable* table) : profile_(profile), table_(table) {}
  Result<double> mops(const Microbenchmark& b) const {
    LOCH_ASSIGN(const Measured measured, measure(profile_, b));
    return measured.mops;
  }
  Result<> rate(const char* id, const char* what, double published, const Microbenchmark& b) {
    LOCH_ASSIGN(const double rate, mops(b));
    return value(id, what, "M/s", published, rate);
  }
  Result<> latency(const char* id, const char* what, double published, const Microbenchmark& b) {
    LOCH_ASSIGN(const Measured measured, measure(profile_, b));
    return value(id, what, "us", published, measured.mean_us);
  }
  Result<> ratio(const char* id, const char* what, double published, const Microbenchmark& b,
                 const Microbenchmark& over) {
    LOCH_ASSIGN(const double above, mops(b));
    LOCH_ASSIGN(const double below, mops(over));
    return value(id, what, "x", published, above / below);
  }
  // Adds a row to the calibration table. `published` is 0 if the source publishes no number.
  Result<> value(const char* id, const char* what, const char* unit, double published, double obtained) {
    CalibrationRow row{id, profile_.name, what, unit, {}, obtained};
    if (published > 0) row.published = published;
    table_->push_back(std::move(row));
    return {};
  }
  Result<> claim(const char* id, const char* what, const char* unit, const char* text, double obtained,
                 bool holds) {
    table_->push_back({id, profile_.name, what, unit, {}, obtained, text, holds});
    return {};
  }
  [[nodiscard]] const HardwareProfile& profile() const { return profile_; }

 private:
  const HardwareProfile& profile_;
  CalibrationTable* table_;
};

// Adds row V174 of `loch calibrate` (Kalia et al. 2016, section 5.3.1): the smallest power of two as the size
// of READs for which the link is the bottleneck.
Result<> binding_read(Rows* rows, double published,
                      const std::function<Microbenchmark(Microbenchmark)>& fill) {
  std::uint32_t bytes = 16;
  for (; bytes < 1024; bytes *= 2) {
    LOCH_ASSIGN(const Measured measured, measure(rows->profile(), fill(inbound(Verb::read, bytes))));
    if (measured.link_busy > 0.95) break;
  }
  return rows->value("V174", "inbound READ, least size at which the link binds", "B", published, bytes);
}

// Adds rows V176 and V177 of `loch calibrate` (Kalia et al. 2016, section 5.3.2). V176: the rate of READs
// with the published best window, and with a window of 1, relative to the rate with the best window measured.
// V177: how work-request cache misses grow with the window.
Result<> windows_of_reads(Rows* rows, std::uint32_t published_best, std::uint32_t cores) {
  double best = 0;
  std::map<std::uint32_t, Measured> by_window;
  for (const std::uint32_t window : {1u, 4u, 16u, 64u, 256u, 512u}) {
    LOCH_ASSIGN(by_window[window], measure(rows->profile(), rounds(Verb::read, cores, window)));
    best = std::max(best, by_window[window].mops);
  }
  const std::string what =
      "outbound READ, window " + std::to_string(published_best) + " a core / the best window";
  LOCH_TRY(rows->value("V176", what.c_str(), "x", 1, by_window[published_best].mops / best));
  LOCH_TRY(rows->claim("V176", "outbound READ, window 1 / the best window", "x", "far less",
                       by_window[1].mops / best, by_window[1].mops < best / 2));
  const double few_misses = by_window[16].work_request_misses,
               many_misses = by_window[512].work_request_misses;
  LOCH_TRY(rows->claim("V177", "work request misses a READ, window 512", "", "grow with N", many_misses,
                       many_misses > few_misses));
  LOCH_ASSIGN(const Measured writes, measure(rows->profile(), rounds(Verb::write, cores, 512)));
  return rows->claim("V177", "work request misses a WRITE, window 512", "", "none",
                     writes.work_request_misses, writes.work_request_misses == 0);
}

// What a bar's label of a figure can be, in M/s; two equal ends: a number.
struct Interval {
  double low = 0, high = 0;
};
// Rates of one core that posts datagrams of 60 B: one by one, and in batches by 1, 2 and 4 queue pairs (Kalia
// et al. 2016, Figure 11b).
struct OneCore {
  Interval unbatched, one, two, four;
};

// Adds row V171 of `loch calibrate` (Kalia et al. 2016, section 5.2.1): how the rate of datagrams of 60 B
// that one core posts in batches grows with the number of its queue pairs, what batching costs with one
// queue pair, and the rates themselves, whose labels in Figure 11b are known up to an interval each.
Result<> queue_pairs(Rows* rows, double with_four, const OneCore& labels) {
  LOCH_ASSIGN(const double one, rows->mops(batched(60, 1, 1)));
  LOCH_ASSIGN(const double two, rows->mops(batched(60, 1, 2)));
  LOCH_ASSIGN(const double four, rows->mops(batched(60, 1, 4)));
  Microbenchmark single = outbound(Verb::send, 60, ud);
  single.workers = 1;
  LOCH_ASSIGN(const double unbatched, rows->mops(single));
  LOCH_TRY(rows->claim("V171", "1 core, UD SEND 60 B, 1 queue pair: batched / not", "x", "a loss",
                       one / unbatched, one < unbatched));
  LOCH_TRY(rows->value("V171", "1 core, batched: 2 queue pairs / 1", "x", 2, two / one));
  LOCH_TRY(with_four > 0
               ? rows->value("V171", "1 core, batched: 4 queue pairs / 1", "x", with_four, four / one)
               : rows->claim("V171", "1 core, batched: 4 queue pairs / 1", "x", "2 to 3.2", four / one,
                             four / one > 1.9 && four / one < 3.3));
  const auto within = [&](const char* what, const Interval& label, double rate) -> Result<> {
    if (label.low == label.high) return rows->value("V171", what, "M/s", label.low, rate);
    return rows->claim("V171", what, "M/s", fmt::format("{} to {}", label.low, label.high).c_str(), rate,
                       rate >= label.low && rate <= label.high);
  };
  LOCH_TRY(within("1 core, UD SEND 60 B, one by one", labels.unbatched, unbatched));
  LOCH_TRY(within("1 core, UD SEND 60 B, batched, 1 queue pair", labels.one, one));
  LOCH_TRY(within("1 core, UD SEND 60 B, batched, 2 queue pairs", labels.two, two));
  return within("1 core, UD SEND 60 B, batched, 4 queue pairs", labels.four, four);
}

// Adds row V149 of `loch calibrate` (HERD 2014, section 5.3): the smallest payload, in steps of 16 B, for
// which UD SENDs whose payload the NIC fetches are faster than SENDs with inlined payload.
Result<> inline_switch(Rows* rows, double published) {
  std::uint32_t bytes = 32;
  for (; bytes <= rows->profile().nic.max_inline_bytes; bytes += 16) {
    Microbenchmark inlined = outbound(Verb::send, bytes, ud), fetched = inlined;
    inlined.workers = fetched.workers = 6;
    fetched.traffic.is_inline = false;
    LOCH_ASSIGN(const double with, rows->mops(inlined));
    LOCH_ASSIGN(const double without, rows->mops(fetched));
    if (without > with) break;
  }
  return rows->value("V149", "UD SEND, 6 cores: least size to fetch, not to inline", "B", published, bytes);
}

// ---- The rows of each NIC model ----------------------------------------------------------------
Result<> datagrams(Rows* rows, double recv0, double recv, double send0, double send,
                   const std::function<Microbenchmark(Microbenchmark)>& fill) {
  LOCH_TRY(
      rows->rate("V168", "inbound UD SEND and RECV, header only", recv0, fill(inbound(Verb::send, 0, ud))));
  LOCH_TRY(rows->rate("V168", "inbound UD SEND and RECV, 60 B", recv, fill(inbound(Verb::send, 60, ud))));
  LOCH_TRY(rows->rate("V168", "outbound UD SEND, header only, batch 16", send0, fill(batched(0))));
  return rows->rate("V168", "outbound UD SEND, 60 B, batch 16", send, fill(batched(60)));
}

Result<> atomics(Rows* rows, double one, double spread,
                 const std::function<Microbenchmark(Microbenchmark)>& fill) {
  Microbenchmark counters = inbound(Verb::faa, 8);
  LOCH_TRY(rows->rate("V178", "inbound FAA, 1 counter", one, few(counters)));
  counters.window = 4;
  counters.traffic.words = 4096;
  return rows->rate("V178", "inbound FAA, 4096 counters", spread, fill(counters));
}

// Adds the row of rdma_bench's read-mes (experiments/hardware/data): atomics where 1 GB is registered, which
// the processor's cache does not hold. The model goes by the region's size, so that some of its words do.
Result<> atomics_beyond_the_cache(Rows* rows, double published) {
  Microbenchmark words = few(inbound(Verb::faa, 8));
  words.region_bytes = std::uint64_t{1} << 30;
  words.traffic.words = 4096;
  return rows->rate("rdma_bench", "inbound FAA, 1 GB registered", published, words);
}

Result<> connectx(Rows* rows) {
  LOCH_TRY(datagrams(rows, 15.3, 9.6, 11.9, 11.9, few));
  LOCH_TRY(queue_pairs(rows, 0, {{2.1, 4.1}, {2.3, 4.2}, {4.3, 9.2}, {4.9, 9.8}}));
  return binding_read(rows, 128, few);
}

Result<> connectx2(Rows* rows) {
  LOCH_TRY(rows->rate("V123", "inbound READ, 16 B", 2.449, few(inbound(Verb::read, 16))));
  LOCH_TRY(rows->rate("V123", "inbound READ, 1024 B", 1.496, few(inbound(Verb::read, 1024))));
  LOCH_TRY(rows->rate("V123", "inbound READ, 4096 B", 0.472, few(inbound(Verb::read, 4096))));
  for (const auto& [bytes, rate] :
       std::map<std::uint32_t, double>{{16, 0.668}, {1024, 0.668}, {4096, 0.464}}) {
    Microbenchmark verbs = few(echo(bytes, 10, rc));
    verbs.traffic.is_inline = bytes <= rows->profile().nic.max_inline_bytes;
    verbs.receivers = 1;
    const std::string what = "echo by SEND and RECV, 1 core, " + std::to_string(bytes) + " B and 10 B";
    LOCH_TRY(rows->rate("V123", what.c_str(), rate, verbs));
  }
  LOCH_TRY(rows->latency("V124", "READ latency, 16 B, alone", 3, alone(Verb::read, 16)));
  LOCH_TRY(rows->latency("V124", "READ latency, 1024 B, alone", 4, alone(Verb::read, 1024)));
  Microbenchmark lone = echo(16, 10, rc);
  lone.peers = lone.workers = lone.receivers = lone.window = 1;
  LOCH_ASSIGN(const Measured ping, measure(rows->profile(), lone));
  LOCH_TRY(
      rows->claim("V124", "echo latency, 16 B, alone", "us", "under 10", ping.mean_us, ping.mean_us < 10));
  LOCH_TRY(rows->rate("V125", "inbound READ, small", 2.45, few(inbound(Verb::read, 8))));
  LOCH_TRY(rows->rate("V125", "outbound SEND, 16 B", 0.7, few(outbound(Verb::send, 16, rc))));
  return rows->rate("V125", "inbound SEND and RECV, 16 B", 1.5, few(inbound(Verb::send, 16)));
}

Microbenchmark as_it_is(Microbenchmark b) { return b; }

Result<> connectx3(Rows* rows) {
  LOCH_TRY(rows->rate("V145", "inbound READ, 32 B", 26, inbound(Verb::read, 32)));
  LOCH_TRY(rows->rate("V145", "echo by UD SEND and RECV, 6 cores, 32 B", 21, [] {
    Microbenchmark b = echo(32, 32, ud);
    b.receivers = 6;
    return b;
  }()));
  LOCH_TRY(inline_switch(rows, 144));
  LOCH_TRY(datagrams(rows, 34.0, 21.8, 32.1, 26.0, as_it_is));
  HardwareProfile inlining = rows->profile();
  inlining.nic.inline_receive_bytes = 64;
  LOCH_ASSIGN(const Measured received, measure(inlining, inbound(Verb::send, 60, ud)));
  LOCH_TRY(rows->value("V173", "inbound UD SEND and RECV, 60 B, inline receive", "M/s", 26, received.mops));
  LOCH_TRY(queue_pairs(rows, 0, {{12.4, 14.9}, {7.7, 9.9}, {17.4, 19.8}, {17.0, 19.6}}));
  LOCH_TRY(binding_read(rows, 256, as_it_is));
  LOCH_TRY(windows_of_reads(rows, 16, 8));
  LOCH_TRY(atomics(rows, 2.7, 2.7, as_it_is));
  LOCH_TRY(atomics_beyond_the_cache(rows, 1.8));
  return rows->latency("", "READ latency, 8 B, alone", 0, alone(Verb::read, 8));
}

Result<> connectx3_ethernet(Rows* rows) {
  LOCH_TRY(rows->rate("V145", "inbound READ, 8 B (the same chip)", 0, inbound(Verb::read, 8)));
  Microbenchmark counters = inbound(Verb::faa, 8);
  counters.window = 4;
  LOCH_TRY(rows->rate("V178", "inbound FAA, 1 counter (the same chip)", 2.7, counters));
  LOCH_TRY(rows->latency("V121", "READ latency, 8 B, alone", 0, alone(Verb::read, 8)));
  LOCH_TRY(rows->latency("V121", "WRITE latency, 8 B, alone", 0, alone(Verb::write, 8)));
  LOCH_TRY(rows->latency("V121", "READ latency, 16 KB, alone", 0, alone(Verb::read, 16384)));
  return rows->latency("V121", "WRITE latency, 16 KB, alone", 0, alone(Verb::write, 16384));
}

// Adds the bandwidth limit of the PCIe bus (row V170 of `loch calibrate`; Kalia et al. 2016, section 5.2.1),
// and the bus bytes of ten work requests of 65 B (row V179; appendix A of that paper).
Result<> bus(Rows* rows) {
  const PcieProfile& pcie = rows->profile().pcie;
  const PcieHeaders headers{static_cast<std::uint32_t>(pcie.read_header_bytes),
                            static_cast<std::uint32_t>(pcie.data_header_bytes), pcie.packet_bytes};
  const double gbytes = pcie.gbytes_s;
  const double read_share = static_cast<double>(headers.packet) / (headers.packet + headers.completion);
  const double mmio_lines = gbytes * 1e3 / (pcie_line + headers.request);
  LOCH_TRY(rows->value("V170", "DMA reads", "MB/s", 13443, gbytes * 1e3 * read_share));
  LOCH_TRY(rows->value("V170", "work requests of 128 B by DMA", "M/s", 105, gbytes * 1e3 * read_share / 128));
  LOCH_TRY(rows->value("V170", "lines by MMIO", "M/s", 175, mmio_lines));
  LOCH_TRY(rows->value("V170", "work requests of 128 B by MMIO", "M/s", 87.5, mmio_lines / 2));
  const auto bytes = [](std::uint64_t n) { return static_cast<double>(n); };
  LOCH_TRY(rows->value("V179", "bus bytes of 10 work requests of 65 B, MMIO", "B", 1800,
                       bytes(mmio_bus_bytes(10, 65, headers))));
  return rows->value("V179", "bus bytes of 10 work requests of 65 B, doorbell", "B", 1534,
                     bytes(doorbell_bus_bytes(10, 65, headers)));
}

// Adds the number of cores that are needed to reach the NIC's peak send rate (row V172 of `loch calibrate`;
// Kalia et al. 2016, section 5.2.1).
Result<> cores_that_saturate(Rows* rows) {
  LOCH_ASSIGN(const double all, rows->mops(many(batched(60))));
  double cores = 0;
  for (double rate = 0; rate < 0.95 * all && cores < 14;) {
    Microbenchmark some = many(batched(60));
    some.workers = static_cast<std::uint32_t>(++cores);
    LOCH_ASSIGN(rate, rows->mops(some));
  }
  return rows->value("V172", "cores that saturate the bus, batched UD SEND 60 B", "1", 4, cores);
}

Result<> connect_ib(Rows* rows) {
  LOCH_TRY(rows->rate("V167", "outbound UD SEND, 60 B", 80, many(outbound(Verb::send, 60, ud))));
  LOCH_TRY(datagrams(rows, 122, 82, 157, 101.6, many));
  LOCH_TRY(rows->rate("V167", "inbound READ, 64 B", 121.6, many(inbound(Verb::read, 64))));
  LOCH_TRY(rows->rate("V167", "inbound READ, 128 B", 76.2, many(inbound(Verb::read, 128))));
  LOCH_TRY(rows->ratio("V169", "UD SEND 60 B, batched / not", 1.27, many(batched(60)),
                       many(outbound(Verb::send, 60, ud))));
  LOCH_TRY(
      rows->ratio("V169", "UD SEND batched, header only / 60 B", 1.54, many(batched(0)), many(batched(60))));
  LOCH_TRY(rows->ratio("V169", "UD RECV, header only / 60 B", 1.49, many(inbound(Verb::send, 0, ud)),
                       many(inbound(Verb::send, 60, ud))));
  LOCH_TRY(bus(rows));
  LOCH_TRY(queue_pairs(rows, 3.2, {{10.0, 19.9}, {7.4, 9.8}, {13.5, 19.5}, {23.3, 23.3}}));
  LOCH_TRY(cores_that_saturate(rows));
  LOCH_TRY(binding_read(rows, 64, many));
  LOCH_TRY(rows->rate("V175", "outbound UC WRITE, 32 B", 80, many(outbound(Verb::write, 32, uc))));
  Microbenchmark reads = many(outbound(Verb::read, 8, rc));
  reads.window = 32;
  LOCH_TRY(rows->rate("V175", "outbound READ, 8 B", 88, reads));
  LOCH_TRY(windows_of_reads(rows, 512, 14));
  return atomics(rows, 2.24, 52, many);
}

Result<> connectx6(Rows* rows) {
  LOCH_TRY(rows->rate("", "inbound READ, 8 B", 0, many(inbound(Verb::read, 8))));
  return rows->latency("", "READ latency, 8 B, alone", 0, alone(Verb::read, 8));
}

// SMART's microbenchmarks (ASPLOS 2024): rates of READs and WRITEs by the number of threads and of
// outstanding requests, and by how threads share doorbell registers.
Result<> connectx6_infiniband(const HardwareProfile& profile, CalibrationTable* table) {
  for (const char* file : {"smart-micro-fig3-threads.csv", "smart-micro-fig4-heatmap.csv",
                           "smart-micro-fig4-repeat.csv", "smart-micro-fig13-throttling.csv"}) {
    LOCH_TRY(add_rows_of_file(profile, "SMART", file, table));
  }
  return {};
}

}  // namespace

Result<> add_calibration_rows(const HardwareProfile& profile, CalibrationTable* table) {
  Rows rows(profile, table);
  if (profile.name == "connectx-20g-ib") return connectx(&rows);
  if (profile.name == "connectx2-20g-ib") return connectx2(&rows);
  if (profile.name == "connectx3-56g-ib") return connectx3(&rows);
  if (profile.name == "connectx3-10gbe") return connectx3_ethernet(&rows);
  if (profile.name == "connect-ib-2x56g") return connect_ib(&rows);
  if (profile.name == "connectx6-100g") return connectx6(&rows);
  if (profile.name == "connectx6-200g-ib") return connectx6_infiniband(profile, table);
  return {};
}

}  // namespace loch::fabric::sim
