// Compares the linearizability checker with an oracle that tries every order of operations, on small
// random histories: legal ones, generated from a random order of random operations, and mutated ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "common/base/rng.h"
#include "common/check/exact_search.h"
#include "common/check/gap_search.h"
#include "common/check/history_table.h"
#include "common/check/key_history.h"
#include "common/check/minimise.h"
#include "common/check/zones.h"

namespace loch::check {
namespace {

// Sanitizer builds judge fewer histories: a few suffice to reveal a memory error or a data race, and the
// release build compares verdicts on all of them.
#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
constexpr int fewer = 20;
#else
constexpr int fewer = 1;
#endif

constexpr std::uint32_t absent = none;
constexpr std::uint32_t somebody = none - 1;  // a preloaded value that is not "init"; no GET reads this value

// Tries every order of the operations that their invocation and return times allow. The code shares
// nothing with the checker's algorithms.
class Oracle {
 public:
  Oracle(std::vector<KeyOp> ops, KeyRules rules) : ops_(std::move(ops)), rules_(rules) {}

  bool legal() {
    std::erase_if(ops_, [&](const KeyOp& op) {
      return op.outcome == Outcome::failed || (op.kind == OpKind::get && op.outcome == Outcome::unknown) ||
             (rules_.model == Model::lossy_cache && op.outcome == Outcome::not_found);
    });
    std::vector<std::uint32_t> starts;
    if (rules_.start != Start::present) starts.push_back(absent);
    if (rules_.start != Start::absent) starts.push_back(init_value);
    if (rules_.start == Start::any) starts.push_back(somebody);
    return std::ranges::any_of(starts, [&](std::uint32_t s) { return extend(0, s); });
  }

 private:
  static Nanos latest(const KeyOp& op) {
    return op.outcome == Outcome::unknown && op.kind != OpKind::lost ? forever : op.return_ns;
  }

  bool extend(std::uint32_t done, std::uint32_t value) {
    if (!tried_.insert({done, value}).second) return false;
    Nanos first_due = forever;
    bool all = true;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if ((done >> i & 1) != 0) continue;
      first_due = std::min(first_due, latest(ops_[i]));
      all = all && (ops_[i].outcome == Outcome::unknown || ops_[i].kind == OpKind::lost);
    }
    if (all) return true;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const KeyOp& op = ops_[i];
      if ((done >> i & 1) != 0 || op.invoke_ns > first_due) continue;
      std::uint32_t next = value;
      // A node's loss may leave the key's value as it is, because the lost node need not have held the key.
      if (op.kind == OpKind::lost && extend(done | 1U << i, value)) return true;
      if (op.outcome == Outcome::not_found) {
        if (value != absent) continue;
      } else if (op.outcome == Outcome::exists) {
        if (value == absent) continue;
      } else if (op.kind == OpKind::insert_if_absent) {
        // In a lossy cache an INSERT may succeed although the key was present, because the cache may have
        // evicted it.
        if (value != absent && rules_.model == Model::linearizable) {
          // the INSERT found the key present and changed nothing, which contradicts its outcome if that is ok
          if (op.outcome == Outcome::ok) continue;
        } else {
          next = op.value;
        }
      } else if (op.kind == OpKind::lost) {
        next = absent;
      } else if (op.kind == OpKind::get) {
        if (value != op.value) continue;
      } else if (op.kind == OpKind::put) {
        next = op.value;
      } else {
        const bool strict = rules_.delete_ok_removes && rules_.model == Model::linearizable;
        if (strict && op.outcome == Outcome::ok && value == absent) continue;
        next = absent;
      }
      if (extend(done | 1U << i, next)) return true;
    }
    return false;
  }

  std::vector<KeyOp> ops_;
  KeyRules rules_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> tried_;
};

struct Shape {
  std::uint32_t operations = 8;
  Nanos overlap = 6;  // invocation and return are each less than this many ns away from the instant of effect
  double remove_share = 0.25;
  double put_share = 0.35;
  double unknown_share = 0.1;
  std::uint32_t losses = 0;
  double insert_share = 0;
};

// Generates a history that is linearizable by construction, even under the rule that a DELETE returns ok only
// if it removed a value.
std::vector<KeyOp> legal_history(Rng& rng, const Shape& shape, Start start) {
  std::vector<KeyOp> ops;
  std::uint32_t value = start == Start::present ? init_value : absent;
  std::uint32_t next_value = 1;
  for (std::uint32_t i = 0; i < shape.operations; ++i) {
    KeyOp op;
    const Nanos instant = 100 + 2 * static_cast<Nanos>(i);
    op.invoke_ns = instant - static_cast<Nanos>(rng.below(static_cast<std::uint64_t>(shape.overlap)));
    op.return_ns = instant + static_cast<Nanos>(rng.below(static_cast<std::uint64_t>(shape.overlap)));
    op.client = static_cast<std::int32_t>(i);
    const bool lost = rng.chance(shape.unknown_share);
    const bool effect = !lost || rng.chance(0.5);
    const double dice = rng.uniform();
    if (dice < shape.put_share) {
      op.kind = OpKind::put;
      op.value = next_value++;
      if (effect) value = op.value;
    } else if (dice < shape.put_share + shape.remove_share) {
      op.kind = OpKind::remove;
      if (value == absent && !lost) op.outcome = Outcome::not_found;
      if (effect) value = absent;
    } else if (dice < shape.put_share + shape.remove_share + shape.insert_share) {
      op.kind = OpKind::insert_if_absent;
      op.value = next_value++;
      if (value != absent && !lost) op.outcome = Outcome::exists;
      if (value == absent && effect) value = op.value;
    } else {
      op.kind = OpKind::get;
      op.value = value;
      if (value == absent) op.outcome = Outcome::not_found;
      if (lost) op.value = none;
    }
    if (lost)
      op.outcome = effect || op.kind == OpKind::get ? Outcome::unknown
                   : rng.chance(0.5)                ? Outcome::failed
                                                    : Outcome::unknown;
    if (lost && op.outcome == Outcome::unknown && rng.chance(0.5)) op.return_ns = forever;
    ops.push_back(op);
    if (shape.losses > 0 && rng.chance(static_cast<double>(shape.losses) / shape.operations)) {
      const Nanos at = instant + 1;
      ops.push_back(
          {.invoke_ns = at - static_cast<Nanos>(rng.below(static_cast<std::uint64_t>(shape.overlap))),
           .return_ns = at + static_cast<Nanos>(rng.below(static_cast<std::uint64_t>(shape.overlap))),
           .client = preload_client,
           .kind = OpKind::lost});
      if (rng.chance(0.5)) value = absent;
    }
  }
  return ops;
}

// Makes one to three random changes to a legal history, which may or may not make it illegal.
void mutate(Rng& rng, std::vector<KeyOp>* ops) {
  for (std::uint64_t n = 1 + rng.below(3); n > 0; --n) {
    KeyOp& op = (*ops)[rng.below(ops->size())];
    const KeyOp& other = (*ops)[rng.below(ops->size())];
    switch (rng.below(5)) {
      case 0:
        if (op.kind == OpKind::get && op.outcome == Outcome::ok && other.value != none)
          op.value = other.value;
        break;
      case 1:
        if (op.kind == OpKind::insert_if_absent && op.outcome == Outcome::ok) {
          op.outcome = Outcome::exists;
        } else if (op.outcome == Outcome::exists) {
          op.outcome = Outcome::ok;
        } else if (op.kind == OpKind::remove && op.outcome == Outcome::ok) {
          op.outcome = Outcome::not_found;
        } else if (op.kind == OpKind::remove && op.outcome == Outcome::not_found) {
          op.outcome = Outcome::ok;
        }
        break;
      case 2:
        if (op.kind == OpKind::get && op.outcome == Outcome::not_found && other.value != none) {
          op.outcome = Outcome::ok;
          op.value = other.value;
        } else if (op.kind == OpKind::get && op.outcome == Outcome::ok) {
          op.outcome = Outcome::not_found;
          op.value = none;
        }
        break;
      case 3:
        if (op.return_ns != forever) op.return_ns = op.invoke_ns + static_cast<Nanos>(rng.below(3));
        break;
      default:
        if (op.kind != OpKind::get && op.outcome == Outcome::ok)
          op.outcome = rng.chance(0.5) ? Outcome::failed : Outcome::unknown;
        break;
    }
  }
}

std::string printed(const std::vector<KeyOp>& ops) {
  std::string out;
  for (const KeyOp& op : ops) {
    out += fmt::format("  {} v{} {} [{}, {}]\n", name(op.kind), static_cast<std::int32_t>(op.value),
                       name(op.outcome), op.invoke_ns, op.return_ns == forever ? -1 : op.return_ns);
  }
  return out;
}

struct Tally {
  std::uint64_t legal = 0;
  std::uint64_t illegal = 0;
  // legal histories for which search_gaps() finds no order, so that the exact search decides
  std::uint64_t missed = 0;
};

void compare(const std::vector<KeyOp>& ops, const KeyRules& rules, Tally* tally) {
  const bool legal = Oracle(ops, rules).legal();
  const Judgement judged = judge_key(ops, rules);
  ASSERT_EQ(judged.verdict, legal ? Verdict::holds : Verdict::violated)
      << name(rules.model) << " start " << static_cast<int>(rules.start) << " strict "
      << rules.delete_ok_removes << "\n"
      << printed(ops);
  ASSERT_EQ(search_exactly(ops, rules).verdict, judged.verdict) << printed(ops);
  ++(legal ? tally->legal : tally->illegal);
  if (!legal) return;
  const Zones zones = find_zones(ops, rules);
  tally->missed += !zones.repeated_values && search_gaps(zones, rules).verdict != Verdict::holds ? 1 : 0;
}

std::vector<KeyRules> all_rules() {
  std::vector<KeyRules> rules;
  for (const Model model : {Model::linearizable, Model::lossy_cache}) {
    for (const Start start : {Start::any, Start::absent, Start::present}) {
      for (const bool strict : {true, false}) rules.push_back({model, start, strict, 1'000'000});
    }
  }
  return rules;
}

Shape random_shape(Rng& rng) {
  Shape shape;
  shape.operations = 2 + static_cast<std::uint32_t>(rng.below(9));
  shape.overlap = 1 + static_cast<Nanos>(rng.below(16));
  shape.remove_share = 0.5 * rng.uniform();
  shape.put_share = 0.5 * rng.uniform();
  shape.unknown_share = rng.chance(0.5) ? 0.0 : 0.3;
  return shape;
}

TEST(CrossCheck, LegalHistoriesHold) {
  Rng rng(1, "legal");
  for (int i = 0; i < 20'000 / fewer; ++i) {
    const Start start = rng.chance(0.5) ? Start::present : Start::absent;
    const std::vector<KeyOp> ops = legal_history(rng, random_shape(rng), start);
    for (const Start told : {start, Start::any}) {
      for (const bool strict : {true, false}) {
        ASSERT_EQ(judge_key(ops, {Model::linearizable, told, strict, 1'000'000}).verdict, Verdict::holds)
            << printed(ops);
      }
      ASSERT_EQ(judge_key(ops, {Model::lossy_cache, told, true, 1'000'000}).verdict, Verdict::holds)
          << printed(ops);
    }
  }
}

// Sixty-four operations on one key are under way at any time, as after a long outage. The search must hold
// fewer than 2,000 configurations (possible states of the key and its pending operations) at once. It would
// hold many thousands if it discarded a configuration only in favour of one with the same pending operations.
TEST(CrossCheck, ACrowdOnOneKeyIsDecided) {
  Rng rng(7, "crowd");
  for (const bool strict : {true, false}) {
    for (int i = 0; i < 3; ++i) {
      const Shape shape{
          .operations = 2'000, .overlap = 128, .remove_share = 0.2, .put_share = 0.5, .unknown_share = 0.002};
      const std::vector<KeyOp> ops = legal_history(rng, shape, Start::absent);
      const Judgement judged = judge_key(ops, {Model::linearizable, Start::absent, strict, 2'000});
      EXPECT_EQ(judged.verdict, Verdict::holds) << i << ' ' << strict;
    }
  }
}

TEST(CrossCheck, AgreesWithTheOracle) {
  Rng rng(2, "mutated");
  const std::vector<KeyRules> rules = all_rules();
  Tally tally;
  for (int i = 0; i < 30'000 / fewer; ++i) {
    const Start start = rng.chance(0.5) ? Start::present : Start::absent;
    std::vector<KeyOp> ops = legal_history(rng, random_shape(rng), start);
    mutate(rng, &ops);
    for (const KeyRules& r : rules) {
      compare(ops, r, &tally);
      if (HasFatalFailure()) return;
    }
  }
  // The mutated histories must include both many legal and many illegal ones.
  EXPECT_GT(tally.legal, 50'000U / fewer);
  EXPECT_GT(tally.illegal, 50'000U / fewer);
}

// Many overlapping DELETEs and PUTs, so that verdicts depend on which pending PUTs the search orders
// before a DELETE.
TEST(CrossCheck, AgreesWithTheOracleWhereAllOverlaps) {
  Rng rng(3, "dense");
  const KeyRules strict{Model::linearizable, Start::any, true, 1'000'000};
  const KeyRules lenient{Model::linearizable, Start::any, false, 1'000'000};
  Tally tally;
  for (int i = 0; i < 15'000 / fewer; ++i) {
    Shape shape;
    shape.operations = 6 + static_cast<std::uint32_t>(rng.below(6));
    shape.overlap = 12 + static_cast<Nanos>(rng.below(14));
    shape.remove_share = 0.4;
    shape.put_share = 0.35;
    shape.unknown_share = rng.chance(0.5) ? 0.0 : 0.15;
    std::vector<KeyOp> ops = legal_history(rng, shape, Start::absent);
    mutate(rng, &ops);
    mutate(rng, &ops);
    compare(ops, strict, &tally);
    compare(ops, lenient, &tally);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tally.legal, 2'000U / fewer);
  EXPECT_GT(tally.illegal, 2'000U / fewer);
}

// Histories with lost nodes: each loss may remove the key at most once, during its interval.
TEST(CrossCheck, AgreesWithTheOracleAboutLosses) {
  Rng rng(5, "losses");
  const std::vector<KeyRules> rules = all_rules();
  Tally tally;
  // number of histories that are legal only because a lost node may have held the key
  std::uint64_t because = 0;
  for (int i = 0; i < 8'000 / fewer; ++i) {
    const Start start = rng.chance(0.5) ? Start::present : Start::absent;
    Shape shape = random_shape(rng);
    shape.losses = 1 + static_cast<std::uint32_t>(rng.below(3));
    std::vector<KeyOp> ops = legal_history(rng, shape, start);
    if (rng.chance(0.7)) mutate(rng, &ops);
    for (const KeyRules& r : rules) {
      compare(ops, r, &tally);
      if (HasFatalFailure()) return;
    }
    const KeyRules told{Model::linearizable, start, true, 1'000'000};
    const bool with = judge_key(ops, told).verdict == Verdict::holds;
    std::erase_if(ops, [](const KeyOp& op) { return op.kind == OpKind::lost; });
    because += with && judge_key(ops, told).verdict == Verdict::violated ? 1 : 0;
  }
  EXPECT_GT(tally.legal, 20'000U / fewer);
  EXPECT_GT(tally.illegal, 10'000U / fewer);
  EXPECT_GT(because, 300U / fewer);
}

// Histories with INSERTs, with and without lost nodes: whether an INSERT takes effect depends on whether
// the key is present.
TEST(CrossCheck, AgreesWithTheOracleAboutInserts) {
  Rng rng(6, "inserts");
  const std::vector<KeyRules> rules = all_rules();
  Tally tally;
  std::uint64_t because = 0;  // number of histories that are illegal only because of their INSERTs
  for (int i = 0; i < 15'000 / fewer; ++i) {
    const Start start = rng.chance(0.5) ? Start::present : Start::absent;
    Shape shape = random_shape(rng);
    shape.put_share *= 0.6;
    shape.insert_share = 0.1 + 0.4 * rng.uniform();
    shape.losses = rng.chance(0.3) ? 1 + static_cast<std::uint32_t>(rng.below(2)) : 0;
    std::vector<KeyOp> ops = legal_history(rng, shape, start);
    const KeyRules told{Model::linearizable, start, true, 1'000'000};
    ASSERT_EQ(judge_key(ops, told).verdict, Verdict::holds) << printed(ops);
    if (rng.chance(0.8)) mutate(rng, &ops);
    for (const KeyRules& r : rules) {
      compare(ops, r, &tally);
      if (HasFatalFailure()) return;
    }
    const bool with = judge_key(ops, told).verdict == Verdict::holds;
    for (KeyOp& op : ops) {
      if (op.kind == OpKind::insert_if_absent && op.outcome != Outcome::exists) op.kind = OpKind::put;
    }
    std::erase_if(ops, [](const KeyOp& op) { return op.outcome == Outcome::exists; });
    because += !with && judge_key(ops, told).verdict == Verdict::holds ? 1 : 0;
  }
  EXPECT_GT(tally.legal, 20'000U / fewer);
  EXPECT_GT(tally.illegal, 20'000U / fewer);
  EXPECT_GT(because, 300U / fewer);
  EXPECT_EQ(tally.missed, 0U);
}

// Histories in which nearly all operations overlap and none is a GET: the hardest that the oracle can
// still decide.
TEST(CrossCheck, AgreesWithTheOracleWhereInsertsOverlap) {
  Rng rng(8, "dense inserts");
  const KeyRules strict{Model::linearizable, Start::any, true, 1'000'000};
  const KeyRules lenient{Model::linearizable, Start::any, false, 1'000'000};
  Tally tally;
  for (int i = 0; i < 10'000 / fewer; ++i) {
    Shape shape;
    shape.operations = 6 + static_cast<std::uint32_t>(rng.below(6));
    shape.overlap = 8 + static_cast<Nanos>(rng.below(14));
    shape.remove_share = 0.35;
    shape.put_share = 0.1;
    shape.insert_share = 0.35;
    shape.unknown_share = rng.chance(0.5) ? 0.0 : 0.15;
    std::vector<KeyOp> ops = legal_history(rng, shape, Start::absent);
    mutate(rng, &ops);
    mutate(rng, &ops);
    compare(ops, strict, &tally);
    compare(ops, lenient, &tally);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tally.legal, 2'000U / fewer);
  EXPECT_GT(tally.illegal, 2'000U / fewer);
  EXPECT_EQ(tally.missed, 0U);
}

// Histories of one key with many clients and INSERTs are decided within the search limit.
TEST(CrossCheck, ACrowdOfInsertsIsDecided) {
  Rng rng(9, "crowd of inserts");
  for (const bool strict : {true, false}) {
    for (int i = 0; i < 3; ++i) {
      const Shape shape{.operations = 2'000,
                        .overlap = 64,
                        .remove_share = 0.2,
                        .put_share = 0.2,
                        .unknown_share = 0.02,
                        .losses = 8,
                        .insert_share = 0.3};
      const std::vector<KeyOp> ops = legal_history(rng, shape, Start::absent);
      const Judgement judged = judge_key(ops, {Model::linearizable, Start::absent, strict, 100'000});
      EXPECT_EQ(judged.verdict, Verdict::holds) << i << ' ' << strict;
    }
  }
}

// The oracle, which tries every order of the operations, must confirm that a minimised history is a violation
// by itself.
TEST(CrossCheck, SubHistoriesViolateByThemselves) {
  Rng rng(4, "minimise");
  const KeyRules rules{Model::linearizable, Start::any, true, 1'000'000};
  int seen = 0;
  for (int i = 0; i < 40'000 / fewer; ++i) {
    Shape shape = random_shape(rng);
    if (i % 2 == 1) shape.insert_share = 0.3;
    std::vector<KeyOp> ops = legal_history(rng, shape, Start::absent);
    mutate(rng, &ops);
    if (judge_key(ops, rules).verdict != Verdict::violated) continue;
    ++seen;
    const Minimal minimal = minimise(ops, rules);
    KeyRules judged_with = rules;
    judged_with.start = minimal.start;
    ASSERT_FALSE(Oracle(minimal.judged, judged_with).legal()) << printed(ops) << "kept:\n"
                                                              << printed(minimal.judged);
    ASSERT_FALSE(minimal.operations.empty()) << printed(ops);
    ASSERT_LE(minimal.operations.size(), ops.size());
    ASSERT_EQ(minimal.judgement.verdict, Verdict::violated);
  }
  EXPECT_GT(seen, 2'000 / fewer);
}

}  // namespace
}  // namespace loch::check
