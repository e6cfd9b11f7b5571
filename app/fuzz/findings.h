// Processes a finding: shrinks it, stores it as a replay file, draws it as a page, and reports it.
#pragma once

#include <string>

#include "app/fuzz/fuzz.h"
#include "app/fuzz/shrink.h"

namespace loch::fuzz {

// Lines that describe the finding and tell how to run it again.
[[nodiscard]] std::string report(const FuzzFinding& finding, const FuzzOptions& options);

struct StoredFinding {
  std::string replay, page;  // paths of the replay file and of the HTML page that draws the finding
};
// Writes FOLDER/NAME.replay.json and FOLDER/NAME.html, making the folder if needed. The finding has to have a
// scenario and its history.
[[nodiscard]] Result<StoredFinding> store_finding(const FuzzFinding& finding, const FuzzOptions& options,
                                                  const std::string& folder, const std::string& name);

// Shrinks the finding (unless options.shrink_runs is 0), stores it in `folder` under `name`, or as
// fuzz-PROTOCOL-SEED if the name is empty, and returns lines about it. Does nothing for a finding without a
// scenario, and returns an empty text.
[[nodiscard]] Result<std::string> shrink_and_store(const FuzzFinding& finding, const FuzzOptions& options,
                                                   const std::string& folder, std::string name = "");

}  // namespace loch::fuzz
