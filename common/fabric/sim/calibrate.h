// Calibration: the microbenchmarks that a hardware profile's constants were taken from, run in the
// simulator. What the table shows is how well a handful of constants gives back what was measured;
// system-level figures are predictions and are not here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/sim/hardware.h"
#include "common/settings/command.h"

namespace loch::fabric::sim {

struct CalibrationRow {
  std::string id;  // of the published figure ("V145")
  std::string hardware;
  std::string what;                 // "inbound READ, 32 B"
  std::string unit;                 // "M/s", "us", "B", "x" (a ratio), ""
  std::optional<double> published;  // empty: nobody published it; shown for the trend
  double obtained = 0;
  std::string claim = {};  // "under 10", where the source gives no number
  bool holds = true;       // whether the claim holds for the obtained value
  // obtained / published - 1.
  [[nodiscard]] std::optional<double> error() const {
    if (!published) return std::nullopt;
    return obtained / *published - 1;
  }
};
using CalibrationTable = std::vector<CalibrationRow>;

// The rows of one profile, in the order of their cards' history (calibration_rows.cc).
[[nodiscard]] Result<> add_calibration_rows(const HardwareProfile& profile, CalibrationTable* table);
// Runs the microbenchmarks of one profile, or of every profile ("all"). Takes seconds.
[[nodiscard]] Result<CalibrationTable> calibrate(const std::string& hardware);
[[nodiscard]] std::string to_text(const CalibrationTable& table);
[[nodiscard]] std::string to_json(const CalibrationTable& table);

// The PCIe byte model (common/fabric/pcie.h) as a table: N, D, by MMIO and by doorbell.
[[nodiscard]] std::string pcie_table();

struct CalibrateFlags {
  std::string hardware, json;
  bool pcie = false;
};
// The table of its flags. Its places are in `flags`, which outlives it.
[[nodiscard]] settings::Command calibrate_command(CalibrateFlags& flags);

// `loch calibrate`: exit status 0, or 2 for bad input.
[[nodiscard]] int run_calibrate(const std::vector<std::string>& arguments);

}  // namespace loch::fabric::sim
