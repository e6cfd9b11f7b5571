// The history of one key in the form that the checking algorithms use, and their verdicts.
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
// In every history, the preloaded value, whose name is "init", is identified by this number.
inline constexpr std::uint32_t init_value = 0;

struct KeyOp {
  Nanos invoke_ns = 0;
  Nanos return_ns = forever;  // forever: the client never received a result
  std::int32_t client = 0;
  std::uint32_t value = none;  // identifies the value's name; for a lost node, identifies the node's name
  OpKind kind = OpKind::get;
  Outcome outcome = Outcome::ok;

  friend bool operator==(const KeyOp&, const KeyOp&) = default;
};

// Whether the key is present or absent before its first operation; `any` allows both.
enum class Start : std::uint8_t { any, absent, present };

struct KeyRules {
  Model model = Model::linearizable;
  Start start = Start::any;
  bool delete_ok_removes = true;
  std::uint64_t search_limit = 1'000'000;
};

enum class Contradiction : std::uint8_t {
  none,
  corrupt_read,  // the GET Judgement::first read a value that was never written
  failed_read,   // the GET Judgement::first read the value of Judgement::second, a PUT that failed
  // the GET Judgement::first returned before the PUT of its value, Judgement::second, was invoked
  read_before_put,
  // Judgement::first and second prove a span in which the key held one value; third and fourth prove an
  // overlapping span of another value.
  two_values_at_once,
  // Judgement::first, a write of a value or a GET of that value, can have taken effect only in a span in
  // which, as Judgement::third and fourth prove, the key held another value.
  within_other_value,
  // Judgement::first, which found or made the key absent, can have taken effect only in a span in which, as
  // Judgement::third and fourth prove, the key was present.
  absent_in_value,
  no_order,  // no order explains the operation Judgement::first together with the earlier ones
  gave_up,   // the search reached its limit: the verdict is undecided
};

// The verdict on one key. `first` to `fourth` are indices into the judged operations, or `none`.
struct Judgement {
  Verdict verdict = Verdict::holds;
  Contradiction why = Contradiction::none;
  std::uint32_t first = none;
  std::uint32_t second = none;
  std::uint32_t third = none;
  std::uint32_t fourth = none;
  std::uint64_t corrupt_reads = 0;
};

// Judges the history of one key; `operations` may be in any order.
[[nodiscard]] Judgement judge_key(std::span<const KeyOp> operations, const KeyRules& rules);

}  // namespace loch::check
