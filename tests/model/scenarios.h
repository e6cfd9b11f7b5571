// Single scenarios, each drawn up to show one hole. Slots s0 … s5. With two hash functions K's
// candidates are s0, s1 and X's s0, s3; with three, K's are s0, s1, s2 and X's s1, s3, s5 (so that X
// collides with K at s1). Y begins at s1 (in I2 at s2), Z at s1.
#pragma once

#include <string>
#include <vector>

#include "tests/model/state.h"

namespace loch::model {

inline constexpr Key key_k = 0;
inline constexpr Key key_x = 1;
inline constexpr Key key_y = 2;
inline constexpr Key key_z = 3;

[[nodiscard]] inline Op get(Key key) { return {OpType::get, key}; }
[[nodiscard]] inline Op put(Key key, Value value) { return {OpType::put, key, value}; }
[[nodiscard]] inline Op remove(Key key) { return {OpType::remove, key}; }
[[nodiscard]] inline Op migrate(Slot from, Slot to) { return {OpType::migrate, 0, 0, from, to}; }
[[nodiscard]] inline Op break_lease(Key key) { return {OpType::break_lease, key}; }
[[nodiscard]] inline Op scrub(Key key) { return {OpType::scrub, key}; }

// The candidates that the text above describes.
void place_candidates(Scenario* scenario);

// All of them: S1-S13 (two hash functions), C1-C5 (a crash), T1-T11 (three hash functions), I1-I2
// (a full bucket), L1-L4 (lease breaking).
[[nodiscard]] const std::vector<Scenario>& all_scenarios();
// By its short name, "T1"; aborts when there is none.
[[nodiscard]] const Scenario& scenario(const std::string& name);

}  // namespace loch::model
