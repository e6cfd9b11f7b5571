// Enumerates the programs of clients, and the places in the table that the keys can have initially.
#include "app/explore/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "app/explore/run.h"

namespace loch::explore {
namespace {

using Programs = std::vector<std::string>;

std::string joined(const std::vector<std::string_view>& parts, std::string_view by) {
  return fmt::format("{}", fmt::join(parts, by));
}

// Programs of one operation and, with `has_pairs`, also those of two operations.
Programs programs_of(const Programs& operations, bool has_pairs) {
  Programs all = operations;
  for (const std::string& first : has_pairs ? operations : Programs{}) {
    for (const std::string& second : operations) all.push_back(first + "; " + second);
  }
  return all;
}

Programs on_key(std::string_view key, bool can_migrate, bool has_get) {
  Programs all;
  for (const std::string_view verb : {"GET", "PUT", "DELETE", "MIGRATE"}) {
    if ((verb == "GET" && !has_get) || (verb == "MIGRATE" && !can_migrate)) continue;
    all.push_back(fmt::format("{} {}", verb, key));
  }
  return all;
}

Programs both(Programs a, const Programs& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Unordered pairs of programs for two interchangeable clients, followed by the text `others` for the
// remaining clients.
Programs pairs_of(const Programs& programs, std::string_view others) {
  Programs all;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    for (std::size_t j = i; j < programs.size(); ++j)
      all.push_back(fmt::format("{} | {}{}", programs[i], programs[j], others));
  }
  return all;
}

Programs triples_of(const Programs& programs) {
  Programs all;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    for (std::size_t j = i; j < programs.size(); ++j) {
      for (std::size_t k = j; k < programs.size(); ++k)
        all.push_back(joined({programs[i], programs[j], programs[k]}, " | "));
    }
  }
  return all;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"pairs", "two clients of one operation", 2},
      {"pairs-2", "two clients of one or two operations", 2},
      {"triples", "three clients of one operation", 3},
      {"two-one-one", "two operations of the first key, beside two clients of one", 3},
      {"writers", "two clients that write once or twice, beside GET; GET of the first key", 3},
      {"two-two", "two clients of one or two operations of the first key, beside GET; GET of it", 3},
      {"scrubbed", "one operation, beside SCRUB and one, beside one: for clients that die", 3},
  };
  return all;
}

Result<std::vector<std::string>> scenarios_of(std::string_view family, std::string_view first,
                                              std::string_view second, bool can_migrate) {
  const Programs k = on_key(first, can_migrate, true);
  const Programs writes = both(on_key(first, can_migrate, false), on_key(second, can_migrate, false));
  const Programs all = both({k.front()}, writes);
  const std::string reader = fmt::format(" | GET {0}; GET {0}", first);
  if (family == "pairs") return pairs_of(programs_of(both(k, on_key(second, can_migrate, true)), false), "");
  if (family == "pairs-2") return pairs_of(programs_of(all, true), "");
  if (family == "triples") return triples_of(all);
  if (family == "writers") return pairs_of(programs_of(writes, true), reader);
  if (family == "two-two") return pairs_of(programs_of(k, true), reader);
  Programs scenarios;
  if (family == "two-one-one") {
    for (const std::string& a : k) {
      for (const std::string& b : k) {
        for (const std::string& others : pairs_of(k, ""))
          scenarios.push_back(fmt::format("{}; {} | {}", a, b, others));
      }
    }
    return scenarios;
  }
  if (family == "scrubbed") {
    for (const std::string& dies : all) {
      for (const std::string& scrubs : all) {
        for (const std::string& other : all)
          scenarios.push_back(fmt::format("{} | SCRUB; {} | {}", dies, scrubs, other));
      }
    }
    return scenarios;
  }
  std::vector<std::string_view> names;
  for (const Family& each : families()) names.push_back(each.name);
  return fail(ErrorCode::invalid_argument,
              fmt::format("--family: \"{}\"; expected one of {}", family, joined(names, ", ")));
}

bool can_migrate(const Plan& plan) {
  const Run run(plan);
  return run.can_migrate();
}

namespace {

// The addresses (region and offset) that the first client's GETs of all keys access after the operations
// `before`, followed by the GETs' answers; empty if an operation does not end. If the protocol uses remote
// atomics on index words, only these words are listed: they determine a key's position, whereas the entries
// that they point to may lie anywhere.
std::string way_of_gets(const Plan& plan, const std::string& before, bool has_words) {
  constexpr int most_moves = 10'000;
  Plan alone = plan;
  auto& program = alone.scenario.clients[0];
  program.clear();
  for (std::uint32_t key = 0; key < plan.keys.size(); ++key) program.push_back({Verb::get, key});
  alone.bounds = {};
  alone.scenario.prepared = 0;
  if (!before.empty()) LOCH_CHECK(prepare(alone.scenario, before).has_value(), "{}", before);
  Run run(alone);
  if (!run.is_prepared()) return {};
  run.set_hashing(false);
  std::string way;
  const auto is_over = [&] {
    const auto& done = run.operations();
    return done.size() == program.size() && done.back().ended.has_value();
  };
  for (int i = 0; i < most_moves && !is_over(); ++i) {
    const std::vector<Move> moves = run.moves();
    const auto next = std::ranges::find_if(
        moves, [](const Move& each) { return each.kind != Kind::begin || each.worker == 0; });
    if (next == moves.end()) return {};
    const Footprint print = run.apply(*next);
    if (next->worker != 0 || print.region < 0 || (has_words && print.region_is_seen)) continue;
    way += fmt::format("{}@{} ", print.region, print.from);
  }
  for (std::size_t i = alone.scenario.prepared; i < run.operations().size(); ++i)
    way += name(run.operations()[i].status);
  return way;
}

}  // namespace

std::vector<std::string> starts_of(const Plan& plan, std::uint32_t operations) {
  std::vector<std::string> writes;
  const bool migrates = can_migrate(plan);
  for (const std::string& key : plan.scenario.keys) writes = both(writes, on_key(key, migrates, false));
  std::vector<std::string> starts = {""};
  const bool has_words = plan.module->requirements(plan.options).atomic_scope != fabric::AtomicScope::none;
  std::set<std::string> seen = {way_of_gets(plan, "", has_words)};
  for (std::size_t from = 0; operations > 0; --operations) {
    const std::size_t to = starts.size();
    for (; from < to; ++from) {
      for (const std::string& write : writes) {
        std::string before = starts[from].empty() ? write : starts[from] + "; " + write;
        const std::string way = way_of_gets(plan, before, has_words);
        if (!way.empty() && seen.insert(way).second) starts.push_back(std::move(before));
      }
    }
  }
  return starts;
}

}  // namespace loch::explore
