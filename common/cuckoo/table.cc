// Looks keys up in a cuckoo table that one worker owns, and plans the moves that free a slot.
#include "common/cuckoo/table.h"

#include <array>

#include "common/base/check.h"
#include "common/base/probe.h"

namespace loch::cuckoo {
namespace {

// Number of slots that one search looks at before the table counts as full. With three hash functions at
// 90 % load a search looks at some hundred slots.
constexpr std::uint64_t most_searched_slots = 4'000;

}  // namespace

Table::Table(const HashFamily& family, std::uint32_t row, std::uint32_t key_size, const TableMemory& memory)
    : family_(family), row_(row), memory_(memory), key_(key_size) {
  LOCH_CHECK(family.shape().coupling == Coupling::partially_coupled, "a table holds all candidates of a key");
  LOCH_CHECK_LT(row, family.shape().nodes);
}

Table::Lookup Table::look_up(KeyHash& hash, std::span<const std::byte> key) {
  Lookup found;
  for (std::uint32_t rank = 0; rank < family_.shape().functions; ++rank) {
    const Place place = hash.candidate(rank);
    LOCH_CHECK_EQ(place.node, row_);
    const std::uint64_t word = memory_.word(place.slot);
    if (IndexWord::is_empty(word)) {
      if (!found.free) found.free = place.slot;
      continue;
    }
    ++found.compared;
    if (!memory_.has_key(IndexWord::entry(word), key)) continue;
    found.slot = place.slot;
    found.word = word;
    break;
  }
  return found;
}

Table::Moves Table::make_room(KeyHash& hash) {
  std::array<std::uint64_t, max_functions> from{};
  const std::uint32_t functions = family_.shape().functions;
  for (std::uint32_t i = 0; i < functions; ++i) from[i] = family_.number(hash.candidate(i));
  Path path = shortest_path(*this, std::span(from).first(functions), most_searched_slots);
  if (path.slots.empty()) LOCH_PROBE("cuckoo.no-path");
  if (path.slots.size() > 2) LOCH_PROBE("cuckoo.path-of-several");
  Moves moves{.slots = std::move(path.slots), .examined = path.examined};
  for (std::uint64_t& slot : moves.slots) slot = slot_of(slot);
  return moves;
}

bool Table::is_free(std::uint64_t number) { return IndexWord::is_empty(memory_.word(slot_of(number))); }

std::uint32_t Table::candidates(std::uint64_t number, std::uint64_t* out) {
  memory_.read_key(IndexWord::entry(memory_.word(slot_of(number))), key_.data());
  KeyHash hash = family_.hash(key_);
  const std::uint32_t functions = family_.shape().functions;
  for (std::uint32_t i = 0; i < functions; ++i) out[i] = family_.number(hash.candidate(i));
  return functions;
}

}  // namespace loch::cuckoo
