// `loch calibrate`: runs the calibration's microbenchmarks and prints published against obtained values.
#include "common/fabric/sim/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "common/base/output_place.h"
#include "common/fabric/pcie.h"

namespace loch::fabric::sim {
namespace {
Result<> add(const std::string& name, const std::string& changes, CalibrationTable* table) {
  LOCH_ASSIGN(HardwareProfile profile, load_hardware(name));
  LOCH_TRY(change_constants(changes, profile));
  return add_calibration_rows(profile, table);
}
}  // namespace

Result<CalibrationTable> calibrate(const std::string& hardware, const std::string& changes) {
  CalibrationTable table;
  if (hardware != "all") {
    LOCH_TRY(add(hardware, changes, &table));
    return table;
  }
  for (const std::string& name : list_hardware()) LOCH_TRY(add(name, changes, &table));
  return table;
}

std::string to_text(const CalibrationTable& table) {
  constexpr const char* line = "{:<5} {:<17} {:<52} {:>13} {:>12} {:>8}\n";
  std::string text = fmt::format(line, "id", "hardware", "what", "published", "obtained", "error");
  std::vector<double> errors;
  for (const CalibrationRow& row : table) {
    const std::string published = row.published       ? fmt::format("{:g} {}", *row.published, row.unit)
                                  : row.claim.empty() ? "-"
                                                      : row.claim;
    std::string error = row.claim.empty() ? "-" : row.holds ? "holds" : "FAILS";
    if (row.error()) error = fmt::format("{:+.1f} %", 100 * *row.error());
    if (row.error()) errors.push_back(std::abs(*row.error()));
    text += fmt::format(line, row.id, row.hardware, row.what, published,
                        fmt::format("{:.4g} {}", row.obtained, row.unit), error);
  }
  const auto claims =
      std::ranges::count_if(table, [](const CalibrationRow& row) { return !row.claim.empty(); });
  const auto held =
      std::ranges::count_if(table, [](const CalibrationRow& row) { return !row.claim.empty() && row.holds; });
  if (claims > 0) text += fmt::format("{} of {} claims without a number hold\n", held, claims);
  if (errors.empty()) return text;
  std::sort(errors.begin(), errors.end());
  const double middle = (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
  // the least error that nine of ten rows do not exceed
  const double most = errors[(errors.size() * 9 + 9) / 10 - 1];
  return text +
         fmt::format(
             "{} published figures: median error {:.1f} %, 90th percentile {:.1f} %, largest {:.1f} %\n",
             errors.size(), 100 * middle, 100 * most, 100 * errors.back());
}

std::string to_json(const CalibrationTable& table) {
  std::string text = "[";
  for (const CalibrationRow& row : table) {
    text += fmt::format(
        R"({}{{"id":"{}","hardware":"{}","what":"{}","unit":"{}","published":{},"obtained":{},"error":{},"claim":{},"holds":{}}})",
        text.size() > 1 ? ",\n " : "", row.id, row.hardware, row.what, row.unit,
        row.published ? fmt::format("{}", *row.published) : "null", row.obtained,
        row.error() ? fmt::format("{}", *row.error()) : "null",
        row.claim.empty() ? "null" : fmt::format("\"{}\"", row.claim), row.holds);
  }
  return text + "]\n";
}

std::string pcie_table() {
  constexpr const char* line = "{:>9} {:>7} {:>13} {:>17} {:>13} {:>17}\n";
  std::string text =
      "Bytes on the bus towards the NIC for N work requests of D bytes (guidelines 2016, appendix A)\n";
  text += fmt::format(line, "D, bytes", "N", "2.0: by MMIO", "2.0: by doorbell", "3.0: by MMIO",
                      "3.0: by doorbell");
  for (const std::uint32_t bytes : {36u, 64u, 65u, 128u, 192u, 256u}) {
    for (const std::uint64_t requests : {1u, 2u, 4u, 10u, 16u, 32u}) {
      text +=
          fmt::format(line, bytes, requests, mmio_bus_bytes(requests, bytes, pcie_2),
                      doorbell_bus_bytes(requests, bytes, pcie_2), mmio_bus_bytes(requests, bytes, pcie_3),
                      doorbell_bus_bytes(requests, bytes, pcie_3));
    }
  }
  return text;
}

settings::Command calibrate_command(CalibrateFlags& flags) {
  using settings::listed;
  using settings::of;
  using settings::shown;
  using settings::Type;
  return {.name = "calibrate",
          .usage = {"[--hardware NAME|FILE|all] [--hardware-set KEY=VALUE,…] [--json FILE]", "--pcie",
                    "--samples N [--seed S] [--hardware NAME|FILE] [--out FILE.csv]",
                    "--cpu [--hardware NAME] [--memory SIZE] [--seconds S] [--json FILE]",
                    "--rows FILE.csv --out FILE.csv [--hardware NAME|FILE]"},
          .about =
              "Runs the microbenchmarks that the hardware profiles were taken from, and prints for each what "
              "was published, what is obtained, and the error; with --samples N also how far the constants' "
              "ranges let it vary.",
          .flags = {{.setting = listed(shown(of(Type::file, "hardware", "all", "a profile, or all of them"),
                                             "NAME|FILE|all"),
                                       "hardware"),
                     .place = &flags.hardware},
                    {.setting = shown(of(Type::text, "hardware-set", "",
                                         "other values for the profile's constants, "
                                         "nic.pipeline=120,pcie.read=480"),
                                      "KEY=VALUE,…"),
                     .place = &flags.hardware_set},
                    {.setting = of(Type::output, "json", "",
                                   "write the rows here, too; -: to standard output, alone"),
                     .place = &flags.json},
                    {.setting =
                         of(Type::boolean, "pcie", "",
                            "instead: what handing work requests to a NIC costs on the bus, by MMIO and by "
                            "doorbell"),
                     .place = &flags.pcie}},
          .statuses = {{"0", "the table was printed"}, {"2", "bad input"}},
          .example = "calibrate --hardware connectx3-56g-ib"};
}

int run_calibrate(const std::vector<std::string>& arguments) {
  CalibrateFlags flags;
  const settings::Command command = calibrate_command(flags);
  if (settings::asks_for_help(arguments)) {
    fmt::print("{}", settings::help(command));
    return 0;
  }
  const auto given = settings::parse(command, arguments);
  if (!given) return settings::refuse(command, given.error().message);
  if (flags.pcie) {
    if (given->texts.size() > 1) return settings::refuse(command, "--pcie: stands alone");
    fmt::print("{}", pcie_table());
    return 0;
  }
  const auto table = calibrate(flags.hardware, flags.hardware_set);
  if (!table) return settings::refuse(command, table.error().message);
  if (flags.json != "-") fmt::print("{}", to_text(*table));
  if (flags.json.empty()) return 0;
  const auto is_written = write_output(flags.json, to_json(*table));
  return is_written ? 0 : settings::refuse(command, fmt::format("--json: {}", is_written.error().message));
}

}  // namespace loch::fabric::sim
