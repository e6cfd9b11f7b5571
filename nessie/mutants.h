// The known-bad variants of Nessie (rules.h, apply_mutant) and the seeds by which fuzzing finds them.
#pragma once

#include <map>
#include <string>

#include "common/kv/protocol.h"

namespace loch::nessie {

[[nodiscard]] std::map<std::string, kv::Mutant> mutants();

}  // namespace loch::nessie
