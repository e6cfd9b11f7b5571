// The known-bad variants of Nessie (rules.h, apply_mutant) and the seeds by which fuzzing finds them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/kv/protocol.h"

namespace loch::nessie {

[[nodiscard]] std::map<std::string, kv::Mutant> mutants();
// The holes (known faults) of the published protocol that fuzzing finds when every other hole is fixed, each
// with the first seed that finds it.
[[nodiscard]] const std::map<std::string, std::uint64_t>& hole_seeds();

}  // namespace loch::nessie
