// Keeps the error counters of an emulated device, and writes them to files named as by the Linux driver of
// the real device.
#include "common/fabric/verbs/zoo/counters.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>

namespace loch::fabric::verbs::zoo {
namespace {

namespace fs = std::filesystem;

// The names that a Linux driver gives to the counters of transport errors.
struct Driver {
  std::string_view device;  // what the emulated device's name begins with
  std::string_view name;
  std::string_view names[Counters::kinds];  // names of the error counters, by Counters::Kind
  std::string_view quiet[3];                // names of counters that never change; "": none
};

constexpr Driver drivers[] = {
    {"zoo_mlx4", "mlx4_core", {"sq_num_oos", "sq_num_to", "sq_num_rnr"}, {"rq_num_oos", "rq_num_dup"}},
    {"zoo_bnxt",
     "bnxt_en",
     {"seq_err_naks_rcvd", "to_retransmits", "rnr_naks_rcvd"},
     {"oos_drop_count", "rx_ecn_marked_pkts", "rx_cnp_pkts"}},
    {"zoo_irdma",
     "ice",
     {"Nak Sequence Error", "RetransSegs", "RNR received"},
     {"RxECNMrkd", "cnpHandled", "cnpSent"}},
    {"",
     "mlx5_core",
     {"packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err"},
     {"out_of_sequence", "np_ecn_marked_roce_packets", "np_cnp_sent"}},
};
constexpr std::string_view port_counters[] = {"symbol_error", "link_downed", "port_rcv_errors",
                                              "port_xmit_discards", "port_xmit_wait"};

const Driver& driver_of(std::string_view device) {
  const Driver* found = drivers;
  while (!device.starts_with(found->device)) ++found;
  return *found;
}

void put(const fs::path& path, std::uint64_t value) { std::ofstream(path) << value << '\n'; }

void write_value(int file, std::uint32_t value) {
  const std::string text = std::to_string(value) + "\n";
  [[maybe_unused]] const ssize_t written = pwrite(file, text.data(), text.size(), 0);
  [[maybe_unused]] const int cut = ftruncate(file, static_cast<off_t>(text.size()));
}

}  // namespace

Counters::~Counters() {
  for (const One& one : all_) {
    if (one.file >= 0) close(one.file);
  }
}

std::expected<void, std::string> Counters::open(const std::string& folder, const DeviceModel& model,
                                                std::uint32_t first) {
  const fs::path of = fs::path(folder) / model.name, port = of / "ports" / "1";
  const Driver& driver = driver_of(model.name);
  std::error_code failure;
  for (const fs::path& each : {of / "device", port / "counters", port / "hw_counters"}) {
    fs::create_directories(each, failure);
    if (failure) return std::unexpected("counters=" + folder + ": " + failure.message());
  }
  put(of / "device" / "numa_node", 0);
  fs::remove(of / "device" / "driver", failure);
  fs::create_symlink(fs::path("../../bus/pci/drivers") / driver.name, of / "device" / "driver", failure);
  for (const std::string_view name : port_counters) put(port / "counters" / name, 0);
  for (const std::string_view name : driver.quiet) {
    if (!name.empty()) put(port / "hw_counters" / name, first);
  }
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const fs::path path = port / "hw_counters" / driver.names[kind];
    put(path, first);
    all_[kind] = {first, ::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (all_[kind].file < 0)
      return std::unexpected("counters=" + folder + ": " + path.string() + " cannot be opened");
  }
  return {};
}

void Counters::add(Kind kind) {
  const std::scoped_lock lock(mutex_);
  One& one = all_[static_cast<std::size_t>(kind)];
  ++one.value;
  if (one.file >= 0) write_value(one.file, one.value);
}

}  // namespace loch::fabric::verbs::zoo
