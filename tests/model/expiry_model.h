// Reuse of data entries under clocks that only nearly agree, the value cache, and CAS on a recycled
// word: what the index model leaves out because its expiry period is infinite.
//
// One slot, one key, a tiny pool of entries on one owner node, and three actors whose steps interleave
// with the ticks of real time in every way:
//   the writer   (also the owner) puts again and again: takes an entry that is free, fills it with the
//                next incarnation, swings the slot to it and stamps the old entry with its deadline;
//   the reader   reads the slot's word, stalls, reads the entry, and checks its clock;
//   the putter   reads the word, passes its check, and stalls before its CAS executes (a thread
//                preempted before the doorbell, or an RC retransmission).
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace loch::model {

// Where an operation compares its age with the expiry period.
enum class AgeCheck : std::uint8_t { none, before_entry, after_entry };

enum class CacheRule : std::uint8_t {
  off,
  until_index_read_plus_e,  // a hit extends the entry to the time of its own READ of the word, plus E
  extend_by_e,              // a hit adds E to the old deadline
};

struct ExpiryRules {
  int expiry = 2;          // E, in ticks
  int margin = 0;          // an entry is free when the owner's clock >= stamp + margin; 1 is "strictly after"
  int unlinker_ahead = 0;  // clock errors against real time, in ticks
  int owner_ahead = 0;
  AgeCheck check = AgeCheck::after_entry;
  bool torn_mark = false;  // the recycle flag is seen before its timestamp
  CacheRule cache = CacheRule::off;
  int version_bits = 0;     // of the word, +1 with every change of the slot (2015)
  int generation_bits = 0;  // of the word, the entry's reuse count (the mend of H16)
  int ticks = 7;            // real time explored
};

// The shortest trace of each violation; empty when there is none.
struct ExpiryResult {
  std::uint64_t states = 0;
  std::string wrong_incarnation;  // a GET returned bytes that were not linked when it read the word
  std::string stale_hit;          // a cache hit did
  std::string aba;                // the putter's CAS succeeded although the slot had changed
};

[[nodiscard]] ExpiryResult explore_expiry(const ExpiryRules& rules);

}  // namespace loch::model
