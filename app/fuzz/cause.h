// Names the hole (known fault of the published design) that explains a violated history, from the operations
// on one key and the protocol's counters.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "common/check/history.h"

namespace loch::fuzz {

enum class Symptom : std::uint8_t {
  none,
  false_not_found,  // a GET missed a key that was present before and after (Nessie's known fault H2)
  lost_update,      // a value vanished without a DELETE (Nessie's known fault H1)
  stale_read,       // an older value was read after a newer one (Nessie's known fault H1)
};
[[nodiscard]] std::string_view name(Symptom symptom);

// The symptom in the operations on `key`, whose history is known to be violated.
[[nodiscard]] Symptom symptom_of(std::span<const check::Operation> history, std::string_view key);

// Describes the likely cause in one line for a report; empty if the cause is unknown. `counters`: the
// counters that the protocol reported for the run.
[[nodiscard]] std::string cause_of(Symptom symptom, const std::map<std::string, double>& counters);

}  // namespace loch::fuzz
