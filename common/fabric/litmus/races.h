// The litmus suite: tests, called races, of one-sided requests beside other memory accesses on two nodes,
// what is counted in each, and which outcomes the devices rule out.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/capabilities.h"

namespace loch::fabric::litmus {

// The litmus tests (races). Unless its comment says otherwise, node 0 posts a test's requests, and their
// target is node 1's memory, in which A and B are words.
enum class Race : std::uint8_t {
  read_cpu,       // READs a block into which node 1's CPU stores
  read_write,     // node 0 WRITEs a block that node 1 READs by loopback
  write_write,    // WRITE A, WRITE B: node 1's CPU sees B and then looks at A
  write_read,     // WRITE A, then READ A: whether the READ misses the WRITE
  write_atomic,   // WRITE A, then FAA on A: whether the FAA misses the WRITE
  write_send,     // WRITE A, then SEND: node 1's CPU loads A when it has received the message
  cas_cpu,        // CAS against node 1's CPU, which swaps the same word by its own instruction
  cas_nic,        // node 0 swaps a word by CAS, and node 1 swaps the same word by CAS over loopback
  early,          // whether node 1's CPU sees the first word of a long WRITE before its completion
  at_completion,  // whether node 1's CPU does not see a WRITE although it has completed
  late,           // whether node 1's CPU does not see a WRITE although it and a later READ have completed
};
inline constexpr std::size_t races_count = 11;

[[nodiscard]] std::string_view name(Race race);
// The outcome that is counted in the litmus test (race), such as "a READ misses the WRITE in front of it".
[[nodiscard]] std::string_view outcome(Race race);
[[nodiscard]] std::vector<std::string> race_names();

// bytes of the block that is read and written in the litmus tests read_cpu and read_write
inline constexpr std::uint32_t block_bytes = 512;
// Lengths of the aligned parts of the block for which torn READs are counted: 2, 4, …, block_bytes.
inline constexpr std::array<std::uint32_t, 9> units = {2, 4, 8, 16, 32, 64, 128, 256, block_bytes};

// What was counted in one litmus test (race): tries, and tries in which the outcome (see outcome()) was seen.
struct Seen {
  std::uint64_t tries = 0;
  std::uint64_t seen = 0;
  // For the litmus tests read_cpu and read_write. torn[i]: number of READs in which at least one aligned part
  // of units[i] bytes was torn.
  std::array<std::uint64_t, units.size()> torn{};
  bool operator==(const Seen&) const = default;
};

// Counts into `seen` one READ that returned `block`. Each store of the block gives all its bytes one value,
// so a part in which two values are found is torn.
void count_torn(std::span<const std::byte, block_bytes> block, Seen& seen);
// The word that fills the block when it is written for the n-th time.
[[nodiscard]] constexpr std::uint64_t block_word(std::uint64_t n) {
  return (n % 251 + 1) * 0x0101010101010101;
}

struct Claim {
  bool is_forbidden = false;  // whether the devices or the fabric rule the outcome out
  std::string text;           // who says so
  std::string missing;        // what the devices lack to run the litmus test; empty: nothing
  std::uint32_t unit = 0;     // for read_cpu, read_write: length of the aligned parts that may not be torn
};
[[nodiscard]] Claim claim_of(Race race, const Capabilities& can);

enum class Verdict : std::uint8_t {
  as_claimed,  // the outcome was ruled out and never seen, or allowed and seen
  violated,    // the outcome was ruled out and seen nevertheless
  not_seen,    // the outcome was allowed and never seen
  not_tried,
};
[[nodiscard]] std::string_view name(Verdict verdict);

struct Row {
  Race race = Race::read_cpu;
  Claim claim;
  std::uint64_t tries = 0, seen = 0;
  Verdict verdict = Verdict::not_tried;
  std::uint32_t unit =
      0;  // for read_cpu, read_write: the longest aligned part that was never torn; 0: another litmus test
  Seen counts;
};
[[nodiscard]] Row judge(Race race, const Seen& counts, const Capabilities& can);
// The verdicts as a table of text, a row for each litmus test (race).
[[nodiscard]] std::string to_table(std::span<const Row> rows);

}  // namespace loch::fabric::litmus
