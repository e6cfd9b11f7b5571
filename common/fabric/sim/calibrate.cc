#include "common/fabric/sim/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "common/fabric/sim/microbenchmark.h"

namespace loch::fabric::sim {
namespace {

enum class Figure : std::uint8_t { mops, latency_us };

struct Row {
  const char* hardware;
  const char* id;
  const char* what;
  Figure figure;
  double published;  // 0: nobody published it
  Microbenchmark benchmark;
};

Microbenchmark inbound(Verb verb, std::uint32_t bytes, Transport transport = Transport::rc) {
  Microbenchmark b;
  b.verb = verb;
  b.transport = transport;
  b.bytes = bytes;
  b.is_inline = bytes > 0 && bytes <= 128 && verb != Verb::read;
  return b;
}
Microbenchmark outbound(Verb verb, std::uint32_t bytes, Transport transport, std::uint32_t chain = 1) {
  Microbenchmark b = inbound(verb, bytes, transport);
  b.is_outbound = true;
  b.workers = 8;
  b.chain = chain;
  if (chain > 1) b.window = 4;
  return b;
}
Microbenchmark atomics(std::uint32_t words) {
  Microbenchmark b;
  b.verb = Verb::faa;
  b.words = words;
  b.window = 4;
  return b;
}
Microbenchmark alone(Verb verb, std::uint32_t bytes) {
  Microbenchmark b;
  b.verb = verb;
  b.bytes = bytes;
  b.peers = 1;
  b.workers = 1;
  b.window = 1;
  return b;
}
// Enough outstanding to fill the fastest card.
Microbenchmark many(Microbenchmark b) {
  b.peers = 14;
  b.workers = 14;
  if (b.window > 4) b.window = 24;
  return b;
}

const std::vector<Row>& rows() {
  using enum Figure;
  constexpr auto rc = Transport::rc, ud = Transport::ud;
  static const std::vector<Row> all = {
      {"connectx3-56g-ib", "V145", "inbound READ, 32 B", mops, 26, inbound(Verb::read, 32)},
      {"connectx3-56g-ib", "V168", "outbound UD SEND, header only, batch 16", mops, 32.1, outbound(Verb::send, 0, ud, 16)},
      {"connectx3-56g-ib", "V168", "outbound UD SEND, 60 B, batch 16", mops, 26.0, outbound(Verb::send, 60, ud, 16)},
      {"connectx3-56g-ib", "V168", "inbound UD SEND and RECV, header only", mops, 34.0, inbound(Verb::send, 0, ud)},
      {"connectx3-56g-ib", "V168", "inbound UD SEND and RECV, 60 B", mops, 21.8, inbound(Verb::send, 60, ud)},
      {"connectx3-56g-ib", "V178", "inbound FAA, 1 counter", mops, 2.7, atomics(1)},
      {"connectx3-56g-ib", "V178", "inbound FAA, 4096 counters", mops, 2.7, atomics(4096)},
      {"connectx3-56g-ib", "", "READ latency, 8 B, alone", latency_us, 0, alone(Verb::read, 8)},
      {"connectx3-10gbe", "V145", "inbound READ, 8 B (the same chip)", mops, 0, inbound(Verb::read, 8)},
      {"connectx3-10gbe", "V178", "inbound FAA, 1 counter (the same chip)", mops, 2.7, atomics(1)},
      {"connectx3-10gbe", "V121", "READ latency, 8 B, alone", latency_us, 0, alone(Verb::read, 8)},
      {"connectx3-10gbe", "V121", "WRITE latency, 8 B, alone", latency_us, 0, alone(Verb::write, 8)},
      {"connectx3-10gbe", "V121", "READ latency, 16 KB, alone", latency_us, 0, alone(Verb::read, 16384)},
      {"connectx3-10gbe", "V121", "WRITE latency, 16 KB, alone", latency_us, 0, alone(Verb::write, 16384)},
      {"connectx2-20g-ib", "V123", "inbound READ, 16 B", mops, 2.449, inbound(Verb::read, 16)},
      {"connectx2-20g-ib", "V123", "inbound READ, 1024 B", mops, 1.496, inbound(Verb::read, 1024)},
      {"connectx2-20g-ib", "V123", "inbound READ, 4096 B", mops, 0.472, inbound(Verb::read, 4096)},
      {"connectx2-20g-ib", "V124", "READ latency, 16 B, alone", latency_us, 3, alone(Verb::read, 16)},
      {"connectx2-20g-ib", "V124", "READ latency, 1024 B, alone", latency_us, 4, alone(Verb::read, 1024)},
      {"connectx2-20g-ib", "V125", "outbound SEND, 16 B", mops, 0.7, outbound(Verb::send, 16, rc)},
      {"connectx2-20g-ib", "V125", "inbound SEND and RECV, 16 B", mops, 1.5, inbound(Verb::send, 16)},
      {"connectx-20g-ib", "V168", "outbound UD SEND, header only, batch 16", mops, 11.9, outbound(Verb::send, 0, ud, 16)},
      {"connectx-20g-ib", "V168", "outbound UD SEND, 60 B, batch 16", mops, 11.9, outbound(Verb::send, 60, ud, 16)},
      {"connectx-20g-ib", "V168", "inbound UD SEND and RECV, header only", mops, 15.3, inbound(Verb::send, 0, ud)},
      {"connectx-20g-ib", "V168", "inbound UD SEND and RECV, 60 B", mops, 9.6, inbound(Verb::send, 60, ud)},
      {"connect-ib-2x56g", "V167", "inbound READ, 64 B", mops, 121.6, many(inbound(Verb::read, 64))},
      {"connect-ib-2x56g", "V167", "inbound READ, 128 B", mops, 76.2, many(inbound(Verb::read, 128))},
      {"connect-ib-2x56g", "V175", "outbound READ, 8 B", mops, 88, many(outbound(Verb::read, 8, rc, 4))},
      {"connect-ib-2x56g", "V175", "outbound WRITE, 32 B", mops, 80, many(outbound(Verb::write, 32, rc))},
      {"connect-ib-2x56g", "V167", "outbound UD SEND, 60 B, batch 16", mops, 101.6, many(outbound(Verb::send, 60, ud, 16))},
      {"connect-ib-2x56g", "V167", "outbound UD SEND, header only, batch 16", mops, 157, many(outbound(Verb::send, 0, ud, 16))},
      {"connect-ib-2x56g", "V167", "inbound UD SEND and RECV, 60 B", mops, 82, many(inbound(Verb::send, 60, ud))},
      {"connect-ib-2x56g", "V167", "inbound UD SEND and RECV, header only", mops, 122, many(inbound(Verb::send, 0, ud))},
      {"connect-ib-2x56g", "V178", "inbound FAA, 1 counter", mops, 2.24, many(atomics(1))},
      {"connect-ib-2x56g", "V178", "inbound FAA, 4096 counters", mops, 52, many(atomics(4096))},
      {"connectx6-100g", "", "inbound READ, 8 B", mops, 0, many(inbound(Verb::read, 8))},
      {"connectx6-100g", "", "READ latency, 8 B, alone", latency_us, 0, alone(Verb::read, 8)},
  };
  return all;
}

// Bytes that N work requests of D bytes put on the bus towards the NIC (guidelines 2016, appendix A).
CalibrationRow bus_bytes(const HardwareProfile& profile, bool by_mmio, double published) {
  constexpr double requests = 10, bytes = 65;
  const PcieProfile& bus = profile.pcie;
  const double lines = std::ceil(bytes / 64);
  const double mmio = requests * lines * (64 + bus.read_header_bytes);
  const double doorbell = (8 + bus.read_header_bytes) + requests * (lines * 64 + bus.data_header_bytes);
  return {"V179", profile.name, by_mmio ? "bus bytes of 10 work requests of 65 B, MMIO" : "bus bytes of 10 work requests of 65 B, doorbell",
          "B", published, by_mmio ? mmio : doorbell};
}

Result<> add_rows(const std::string& name, CalibrationTable* table) {
  LOCH_ASSIGN(const HardwareProfile profile, load_hardware(name));
  for (const Row& row : rows()) {
    if (row.hardware != profile.name) continue;
    LOCH_ASSIGN(const Measured measured, measure(profile, row.benchmark));
    CalibrationRow out;
    out.id = row.id;
    out.hardware = profile.name;
    out.what = row.what;
    out.unit = row.figure == Figure::mops ? "M/s" : "us";
    if (row.published > 0) out.published = row.published;
    out.obtained = row.figure == Figure::mops ? measured.mops : measured.mean_us;
    table->push_back(std::move(out));
  }
  if (profile.name == "connect-ib-2x56g") {
    table->push_back(bus_bytes(profile, true, 1800));
    table->push_back(bus_bytes(profile, false, 1534));
  }
  return {};
}

}  // namespace

Result<CalibrationTable> calibrate(const std::string& hardware) {
  CalibrationTable table;
  if (hardware != "all") {
    LOCH_TRY(add_rows(hardware, &table));
    return table;
  }
  for (const std::string& name : list_hardware()) LOCH_TRY(add_rows(name, &table));
  return table;
}

std::string to_text(const CalibrationTable& table) {
  std::string text = fmt::format("{:<5} {:<17} {:<48} {:>10} {:>10} {:>7}\n", "id", "hardware", "what", "published", "obtained", "error");
  std::vector<double> errors;
  for (const CalibrationRow& row : table) {
    const std::string published = row.published ? fmt::format("{:g} {}", *row.published, row.unit) : "-";
    const std::string error = row.error() ? fmt::format("{:+.1f} %", 100 * *row.error()) : "-";
    if (row.error()) errors.push_back(std::abs(*row.error()));
    text += fmt::format("{:<5} {:<17} {:<48} {:>10} {:>10} {:>7}\n", row.id, row.hardware, row.what, published,
                        fmt::format("{:.4g} {}", row.obtained, row.unit), error);
  }
  if (errors.empty()) return text;
  std::sort(errors.begin(), errors.end());
  const double middle = (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
  return text + fmt::format("{} published figures: median error {:.1f} %, largest {:.1f} %\n", errors.size(), 100 * middle,
                            100 * errors.back());
}

std::string to_json(const CalibrationTable& table) {
  std::string text = "[";
  for (const CalibrationRow& row : table) {
    text += fmt::format(R"({}{{"id":"{}","hardware":"{}","what":"{}","unit":"{}","published":{},"obtained":{},"error":{}}})",
                        text.size() > 1 ? ",\n " : "", row.id, row.hardware, row.what, row.unit,
                        row.published ? fmt::format("{}", *row.published) : "null", row.obtained,
                        row.error() ? fmt::format("{}", *row.error()) : "null");
  }
  return text + "]\n";
}

int run_calibrate(const std::vector<std::string>& arguments) {
  std::string hardware = "all", json;
  const auto refuse = [](const std::string& why) {
    fmt::print(stderr, "loch calibrate: {}\n", why);
    return 2;
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (flag == "--help") {
      fmt::print("Usage: loch calibrate [--hardware NAME|FILE|all] [--json FILE]\n"
                 "Runs the microbenchmarks that the hardware profiles were taken from; published, obtained, error.\n");
      return 0;
    }
    if (flag != "--hardware" && flag != "--json") return refuse(fmt::format("unknown flag {}; expected --hardware or --json", flag));
    if (i + 1 == arguments.size()) return refuse(fmt::format("{}: expected a value", flag));
    (flag == "--hardware" ? hardware : json) = arguments[++i];
  }
  const auto table = calibrate(hardware);
  if (!table) return refuse(table.error().message);
  fmt::print("{}", to_text(*table));
  if (json.empty()) return 0;
  const std::string temporary = json + ".part";
  std::FILE* file = std::fopen(temporary.c_str(), "w");
  if (file == nullptr) return refuse(fmt::format("--json: cannot write {}", json));
  const std::string text = to_json(*table);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !is_written || std::rename(temporary.c_str(), json.c_str()) != 0) {
    return refuse(fmt::format("--json: cannot write {}", json));
  }
  return 0;
}

}  // namespace loch::fabric::sim
