// Which hole a finding comes from, by experiment: the same scenario is run again with one mend of the
// protocol switched on at a time, and where no single one helps with two. Since a mend also shifts the
// instants at which things happen, which alone may hide a rare interleaving, every trial is made of
// many runs that differ in their timing alone, and is compared with as many runs without the mend.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

struct MendEvidence {
  std::uint32_t timings = 0;  // runs of each trial; the first has the finding's own timing
  std::uint32_t found = 0;    // of them, without any mend: those with the finding's verdict
  // The smallest sets of mends with which no run has that verdict; empty: no mend, or pair, helps.
  std::vector<std::vector<kv::Mend>> cures;
};

// The mends that the options leave off; none where the variant has no holes.
[[nodiscard]] std::vector<kv::Mend> mends_of(const FuzzOptions& options, const kv::Module& module);

// Takes tens to hundreds of runs. Nothing is tried where the protocol names no mends.
[[nodiscard]] MendEvidence try_mends(const FuzzFinding& finding, const FuzzOptions& options,
                                     const kv::Module& module);

// "H2: EMPTY words … (with the mend 0 of 12 timings show it, without 7 of 12)"; empty without a cure.
[[nodiscard]] std::string describe(const MendEvidence& evidence);

// Completes `cause` and `mended`, if there are mends to try.
void explain(FuzzFinding& finding, const FuzzOptions& options, const kv::Module& module);

}  // namespace loch::fuzz
