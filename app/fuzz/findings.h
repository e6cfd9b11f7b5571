// What becomes of a finding: it is made small, stored as a replay file, drawn, and said.
#pragma once

#include <string>

#include "app/fuzz/fuzz.h"
#include "app/fuzz/shrink.h"

namespace loch::fuzz {

// The lines that describe it and say how it is run again.
[[nodiscard]] std::string report(const FuzzFinding& finding, const FuzzOptions& options);

struct StoredFinding {
  std::string replay, page;  // paths
};
// Writes FOLDER/NAME.replay.json and FOLDER/NAME.html; the folder is made where it is not there. The finding
// has a scenario and its history.
[[nodiscard]] Result<StoredFinding> store_finding(const FuzzFinding& finding, const FuzzOptions& options,
                                                  const std::string& folder, const std::string& name);

// Makes it small, unless options.shrink_runs is 0, stores it as fuzz-PROTOCOL-SEED (or `name`) in
// options.findings, and returns the lines that say so. A finding without a scenario is left alone: nothing is
// returned.
[[nodiscard]] Result<std::string> shrink_and_store(const FuzzFinding& finding, const FuzzOptions& options,
                                                   const std::string& folder, std::string name = "");

}  // namespace loch::fuzz
