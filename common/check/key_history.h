// One key's history as the algorithms see it, and what they may conclude.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "common/base/units.h"
#include "common/check/linearizable.h"

namespace loch::check {

inline constexpr Nanos beginning = std::numeric_limits<Nanos>::min();
inline constexpr Nanos forever = std::numeric_limits<Nanos>::max();
inline constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
// The number that the value named "init" always has.
inline constexpr std::uint32_t init_value = 0;

struct KeyOp {
  Nanos invoke_ns = 0;
  Nanos return_ns = forever;  // forever: no answer was heard
  std::int32_t client = 0;
  std::uint32_t value = none;  // lost: the node's name
  OpKind kind = OpKind::get;
  Outcome outcome = Outcome::ok;

  friend bool operator==(const KeyOp&, const KeyOp&) = default;
};

// The state of the key before the first operation.
enum class Start : std::uint8_t { any, absent, present };

struct KeyRules {
  Model model = Model::linearizable;
  Start start = Start::any;
  bool delete_ok_removes = true;
  std::uint64_t search_limit = 1'000'000;
};

enum class Contradiction : std::uint8_t {
  none,
  corrupt_read,        // `first` read a value that nobody put
  failed_read,         // `first` read the value of `second`, a PUT that failed
  read_before_put,     // `first` returned before `second`, the PUT of what it read, was invoked
  two_values_at_once,  // between them `first`..`second` and `third`..`fourth` prove overlapping spans
  within_other_value,  // `first`..`second` lies within the span that `third`..`fourth` prove for another
                       // value
  absent_in_value,     // `first` needs the key absent within the span of `third`..`fourth`
  no_order,            // no order of the operations explains `first` as well
  gave_up,             // the search limit was reached: undecided
};

// Indices are into the operations judged; `none` where there is nothing to name.
struct Judgement {
  Verdict verdict = Verdict::holds;
  Contradiction why = Contradiction::none;
  std::uint32_t first = none;
  std::uint32_t second = none;
  std::uint32_t third = none;
  std::uint32_t fourth = none;
  std::uint64_t corrupt_reads = 0;
};

// Judges one key. Operations in any order.
[[nodiscard]] Judgement judge_key(std::span<const KeyOp> operations, const KeyRules& rules);

}  // namespace loch::check
