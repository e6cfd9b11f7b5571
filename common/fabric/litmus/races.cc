// Names the litmus suite's tests (races), derives from a device's capabilities which outcomes the device
// rules out, and judges the counts.
#include "common/fabric/litmus/races.h"

#include <fmt/format.h>

#include <algorithm>

namespace loch::fabric::litmus {
namespace {

struct Text {
  std::string_view name, outcome;
};
constexpr std::array<Text, races_count> texts = {{
    {"read-cpu", "a READ is torn against the CPU's stores"},
    {"read-write", "a READ is torn against a WRITE"},
    {"write-write", "a WRITE is visible before the WRITE in front of it"},
    {"write-read", "a READ misses the WRITE in front of it"},
    {"write-atomic", "an atomic misses the WRITE in front of it"},
    {"write-send", "a message is received before the WRITE in front of it is visible"},
    {"cas-cpu", "a CAS and the CPU's own CAS lose an update"},
    {"cas-nic", "CASs of two nodes' NICs lose an update"},
    {"early", "a WRITE is visible before its completion"},
    {"at-completion", "a WRITE has completed and is not visible"},
    {"late", "nor is it when a READ behind it has completed"},
}};

Claim allowed(std::string text) { return {.is_forbidden = false, .text = std::move(text)}; }
Claim forbidden(std::string text) { return {.is_forbidden = true, .text = std::move(text)}; }

Claim order_claim(Order order, std::string_view what) {
  switch (order) {
    case Order::device:
      return forbidden(fmt::format("never: {} behind WRITE on one queue pair", what));
    case Order::waits:
      return forbidden(fmt::format("never: the fabric posts {} when the WRITE has ended", what));
    case Order::none:
      return allowed("may be: the device keeps no such order");
  }
  return {};
}

Claim untorn_claim(std::uint32_t unit, std::string_view who) {
  Claim claim = forbidden(fmt::format("never within {} aligned bytes: {}", unit, who));
  claim.unit = unit;
  return claim;
}

Claim claim_where_it_runs(Race race, const Capabilities& can) {
  switch (race) {
    case Race::read_cpu:
      return untorn_claim(std::min(can.untorn_bytes, 8u), "the CPU stores words");
    case Race::read_write:
      return untorn_claim(can.untorn_bytes, "the device");
    case Race::write_write:
      if (can.in_order_placement)
        return forbidden(can.order_is_assumed ? "never: order assumed" : "never: places bytes in order");
      return allowed("may be: claims no order of bytes");
    case Race::write_read:
      return order_claim(can.write_then_read, "READ");
    case Race::write_atomic:
      return order_claim(can.write_then_atomic, "atomic");
    case Race::write_send:
      return forbidden("never: SEND behind WRITE on one queue pair");
    case Race::cas_cpu:
      if (can.atomic_scope == AtomicScope::global) return forbidden("never: atomic against the CPU");
      return allowed("may be: atomic among its own requests");
    case Race::cas_nic:
      return forbidden("never: atomic at the target's NIC");
    case Race::early:
    case Race::at_completion:
      return allowed("may be: a completion says nothing of it");
    case Race::late:
      return forbidden("never: the READ pushes the WRITE out");
  }
  return {};
}

std::string missing_of(Race race, const Capabilities& can) {
  if (!can.rc) return "no RC";
  const bool is_of_atomics = race == Race::write_atomic || race == Race::cas_cpu || race == Race::cas_nic;
  if (is_of_atomics && can.atomic_scope == AtomicScope::none) return "no atomics";
  if (race == Race::write_send && !can.receives_connected) return "no shared receive queues";
  return {};
}

bool is_torn(std::span<const std::byte> part) {
  return std::ranges::any_of(part, [&](std::byte each) { return each != part.front(); });
}

std::uint32_t unit_of(const Seen& counts) {
  std::uint32_t unit = 1;
  for (std::size_t i = 0; i < units.size() && counts.torn[i] == 0; ++i) unit = units[i];
  return unit;
}

}  // namespace

std::string_view name(Race race) { return texts[static_cast<std::size_t>(race)].name; }
std::string_view outcome(Race race) { return texts[static_cast<std::size_t>(race)].outcome; }

std::vector<std::string> race_names() {
  std::vector<std::string> names;
  for (const Text& text : texts) names.emplace_back(text.name);
  return names;
}

void count_torn(std::span<const std::byte, block_bytes> block, Seen& seen) {
  ++seen.tries;
  for (std::size_t i = 0; i < units.size(); ++i) {
    bool has_torn = false;
    for (std::uint32_t at = 0; at < block_bytes && !has_torn; at += units[i])
      has_torn = is_torn(block.subspan(at, units[i]));
    seen.torn[i] += has_torn ? 1 : 0;
  }
}

Claim claim_of(Race race, const Capabilities& can) {
  Claim claim = claim_where_it_runs(race, can);
  claim.missing = missing_of(race, can);
  return claim;
}

std::string_view name(Verdict verdict) {
  constexpr std::array<std::string_view, 4> names = {"as claimed", "violated", "not seen", "not tried"};
  return names[static_cast<std::size_t>(verdict)];
}

Row judge(Race race, const Seen& counts, const Capabilities& can) {
  Row row{.race = race, .claim = claim_of(race, can), .tries = counts.tries, .seen = counts.seen};
  row.counts = counts;
  if (row.claim.unit != 0) {
    row.unit = unit_of(counts);
    row.seen = 0;
    // If a part of n bytes is torn, so is every longer part that contains it. Of the units that the device
    // claims never to tear, the count for the longest therefore includes the READs counted for the shorter
    // ones.
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (units[i] <= row.claim.unit) row.seen = counts.torn[i];
    }
  }
  if (!row.claim.missing.empty() || row.tries == 0) return row;
  row.verdict = row.claim.is_forbidden ? (row.seen > 0 ? Verdict::violated : Verdict::as_claimed)
                                       : (row.seen > 0 ? Verdict::as_claimed : Verdict::not_seen);
  return row;
}

std::string to_table(std::span<const Row> rows) {
  std::vector<std::array<std::string, 6>> cells = {{"race", "seen", "of", "unit, B", "claim", "verdict"}};
  for (const Row& row : rows) {
    const bool is_tried = row.verdict != Verdict::not_tried;
    cells.push_back({std::string(outcome(row.race)), is_tried ? fmt::to_string(row.seen) : "-",
                     is_tried ? fmt::to_string(row.tries) : "-",
                     is_tried && row.unit != 0 ? fmt::to_string(row.unit) : "",
                     row.claim.missing.empty() ? row.claim.text : row.claim.missing,
                     std::string(name(row.verdict))});
  }
  std::array<std::size_t, 6> widths{};
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : cells) {
    text += fmt::format("{:<{}}  {:>{}}  {:>{}}  {:>{}}  {:<{}}  {}\n", row[0], widths[0], row[1], widths[1],
                        row[2], widths[2], row[3], widths[3], row[4], widths[4], row[5]);
  }
  return text;
}

}  // namespace loch::fabric::litmus
