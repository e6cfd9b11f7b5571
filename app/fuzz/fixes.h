// Determines by experiment which known flaw (hole) of the protocol causes a finding. The scenario is run
// again with one of the protocol's fixes switched on at a time, and if no single fix removes the finding,
// with pairs of fixes. A fix also shifts the times of events, which alone may hide a rare interleaving. Every
// trial therefore consists of many runs with different timing, and is compared with as many runs without the
// fix.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

struct FixEvidence {
  std::uint32_t timings = 0;  // number of runs in each trial; the first has the finding's own timing
  std::uint32_t found = 0;    // number of runs without any fix that had the finding's verdict
  // Each fix with which no run had the finding's verdict; if there is no such fix, each such pair of fixes.
  std::vector<std::vector<kv::Fix>> cures;
};

// The protocol's fixes that the options leave switched off; empty if the variant has no holes (known faults).
[[nodiscard]] std::vector<kv::Fix> fixes_of(const FuzzOptions& options, const kv::Module& module);

// Runs the finding's scenario with the protocol's fixes switched on, tens to hundreds of times in all. Runs
// nothing if the protocol has no fixes.
[[nodiscard]] FixEvidence try_fixes(const FuzzFinding& finding, const FuzzOptions& options,
                                    const kv::Module& module);

// Describes the evidence: "H2: EMPTY words … (with the fix 0 of 12 timings show it, without 7 of 12)" names
// the known fault H2 and its fix. Empty if no fix helped.
[[nodiscard]] std::string describe(const FixEvidence& evidence);

// Fills in the finding's `cause` and `fixed`, if the protocol has fixes to try.
void explain(FuzzFinding& finding, const FuzzOptions& options, const kv::Module& module);

}  // namespace loch::fuzz
