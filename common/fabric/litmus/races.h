// The races of the litmus suite between two nodes, what is counted of each, and what the devices claim of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/capabilities.h"

namespace loch::fabric::litmus {

// Node 0 posts the requests that a race is named after, unless the race says otherwise; their target is node
// 1's memory.
enum class Race : std::uint8_t {
  read_cpu,       // READs a block into which node 1's CPU stores
  read_write,     // WRITEs a block that node 1 READs by loopback
  write_write,    // WRITE A, WRITE B: node 1's CPU sees B and then looks at A
  write_read,     // WRITE A, READ A
  write_atomic,   // WRITE A, FAA A
  write_send,     // WRITE A, SEND: node 1 looks at A when it has received the message
  cas_cpu,        // CAS against node 1's CPU, which swaps the same word by its own instruction
  cas_nic,        // CAS against node 1, which swaps the same word by loopback
  early,          // whether node 1's CPU sees the first word of a long WRITE before its completion
  at_completion,  // whether node 1's CPU does not see a WRITE although it has completed
  late,           // the same, although a READ behind the WRITE has completed too
};
inline constexpr std::size_t races_count = 11;

[[nodiscard]] std::string_view name(Race race);
// What is counted, such as "a READ misses the WRITE before it".
[[nodiscard]] std::string_view outcome(Race race);
[[nodiscard]] std::vector<std::string> race_names();

inline constexpr std::uint32_t block_bytes = 512;  // length of the block of read_cpu and read_write
// Lengths of aligned parts of the block, each of which is or is not torn: 2, 4, …, block_bytes.
inline constexpr std::array<std::uint32_t, 9> units = {2, 4, 8, 16, 32, 64, 128, 256, block_bytes};

// What was counted of one race.
struct Seen {
  std::uint64_t tries = 0;
  std::uint64_t seen = 0;
  // read_cpu, read_write: number of READs in which some aligned part of this length was torn, by units[]
  std::array<std::uint64_t, units.size()> torn{};
  bool operator==(const Seen&) const = default;
};

// Counts the READ of a block into `seen`. Every byte of the block is written with one value, so that a part
// with two values is torn.
void count_torn(std::span<const std::byte, block_bytes> block, Seen& seen);
// The value with which the block is written the n-th time.
[[nodiscard]] constexpr std::uint64_t block_word(std::uint64_t n) {
  return (n % 251 + 1) * 0x0101010101010101;
}

struct Claim {
  bool is_forbidden = false;  // whether the outcome may never be seen
  std::string text;           // who says so
  std::string missing;        // what the devices lack to run the race; empty: nothing
  std::uint32_t unit = 0;     // read_cpu, read_write: aligned bytes that may not be torn
};
[[nodiscard]] Claim claim_of(Race race, const Capabilities& can);

enum class Verdict : std::uint8_t {
  as_claimed,  // forbidden and never seen, or allowed and seen
  violated,    // forbidden and seen
  not_seen,    // allowed and never seen
  not_tried,
};
[[nodiscard]] std::string_view name(Verdict verdict);

struct Row {
  Race race = Race::read_cpu;
  Claim claim;
  std::uint64_t tries = 0, seen = 0;
  Verdict verdict = Verdict::not_tried;
  std::uint32_t unit =
      0;  // read_cpu, read_write: the longest aligned part that was never torn; 0: other race
  Seen counts;
};
[[nodiscard]] Row judge(Race race, const Seen& counts, const Capabilities& can);
// The rows as text.
[[nodiscard]] std::string to_table(std::span<const Row> rows);

}  // namespace loch::fabric::litmus
