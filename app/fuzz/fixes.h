// Which hole a finding comes from, by experiment: the same scenario is run again with one fix of the
// protocol switched on at a time, and where no single one helps with two. Since a fix also shifts the
// instants at which things happen, which alone may hide a rare interleaving, every trial is made of
// many runs that differ in their timing alone, and is compared with as many runs without the fix.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

struct FixEvidence {
  std::uint32_t timings = 0;  // runs of each trial; the first has the finding's own timing
  std::uint32_t found = 0;    // runs without any fix that have the finding's verdict
  // The smallest sets of fixes with which no run has that verdict; empty: no fix, or pair, helps.
  std::vector<std::vector<kv::Fix>> cures;
};

// The fixes that the options leave off; none where the variant has no holes.
[[nodiscard]] std::vector<kv::Fix> fixes_of(const FuzzOptions& options, const kv::Module& module);

// Takes tens to hundreds of runs. Nothing is tried where the protocol names no fixes.
[[nodiscard]] FixEvidence try_fixes(const FuzzFinding& finding, const FuzzOptions& options,
                                    const kv::Module& module);

// "H2: EMPTY words … (with the fix 0 of 12 timings show it, without 7 of 12)"; empty without a cure.
[[nodiscard]] std::string describe(const FixEvidence& evidence);

// Completes `cause` and `fixed`, if there are fixes to try.
void explain(FuzzFinding& finding, const FuzzOptions& options, const kv::Module& module);

}  // namespace loch::fuzz
