// Calibration: runs, in the simulator, the microbenchmarks from which the constants of a hardware profile
// were derived. The table shows how well a few constants reproduce the measured values. Figures of whole
// systems are predictions and are not in the table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/sim/hardware.h"
#include "common/settings/command.h"

namespace loch::fabric::sim {

struct CalibrationRow {
  std::string id;  // identifier of the published measurement, such as "V145", which `loch calibrate` prints
  std::string hardware;
  std::string what;                 // what was measured, such as "inbound READ, 32 B"
  std::string unit;                 // "M/s", "us", "B", "x" (a ratio), ""
  std::optional<double> published;  // nullopt: the source publishes no number to compare with
  double obtained = 0;
  std::string claim = {};  // such as "under 10", if the source gives no number
  bool holds = true;       // whether the claim holds for the obtained value
  // Relative error of the obtained value: obtained divided by published, minus 1.
  [[nodiscard]] std::optional<double> error() const {
    if (!published) return std::nullopt;
    return obtained / *published - 1;
  }
};
using CalibrationTable = std::vector<CalibrationRow>;

// Runs the microbenchmarks of one NIC's profile and adds a row to the table for each published measurement
// (calibration_rows.cc).
[[nodiscard]] Result<> add_calibration_rows(const HardwareProfile& profile, CalibrationTable* table);
// Adds a row to the table for each row with the role `calibrate` of FILE.csv in experiments/hardware/data, a
// table of measured rates at which threads post READs or WRITEs in rounds (calibration_files.cc). A row's
// description is `name`, then the figure of the paper and the parameters.
[[nodiscard]] Result<> add_rows_of_file(const HardwareProfile& profile, const std::string& name,
                                        const std::string& file, CalibrationTable* table);
// Runs the microbenchmarks of one profile, or of every profile ("all"), with other values for the constants
// that `changes` names (change_constants). Takes seconds.
[[nodiscard]] Result<CalibrationTable> calibrate(const std::string& hardware,
                                                 const std::string& changes = "");
[[nodiscard]] std::string to_text(const CalibrationTable& table);
[[nodiscard]] std::string to_json(const CalibrationTable& table);

// A text table of the bytes that work requests take on the PCIe bus by MMIO and by doorbell
// (common/fabric/pcie.h).
[[nodiscard]] std::string pcie_table();

struct CalibrateFlags {
  std::string hardware, hardware_set, json;
  bool pcie = false;
};
// The flags of `loch calibrate`. Parsing stores their values in `flags`, which has to outlive the returned
// object.
[[nodiscard]] settings::Command calibrate_command(CalibrateFlags& flags);

// Runs `loch calibrate`. Returns the exit status: 0, or 2 for bad input.
[[nodiscard]] int run_calibrate(const std::vector<std::string>& arguments);

}  // namespace loch::fabric::sim
