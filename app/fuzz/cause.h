// Which of the known holes explains a violated history, from the history of the key itself and what
// the protocol counted.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "common/check/history.h"

namespace loch::fuzz {

enum class Symptom : std::uint8_t {
  none,
  false_not_found,  // a key that was there before and after was not found: H2's mark
  lost_update,      // a value that was put, or preloaded, vanished without a DELETE: H1's mark
  stale_read,       // an older value was read after a newer one: H1's mark as well
};
[[nodiscard]] std::string_view name(Symptom symptom);

// Of the operations of one key that is known not to hold.
[[nodiscard]] Symptom symptom_of(std::span<const check::Operation> history, std::string_view key);

// One line for people; empty when nothing is known. `counters` are the protocol's.
[[nodiscard]] std::string cause_of(Symptom symptom, const std::map<std::string, double>& counters);

}  // namespace loch::fuzz
