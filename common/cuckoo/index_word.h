// The index word of a table that one worker owns. Only that worker stores words, each by one 8-byte
// store; clients may READ them. Words have no data table index (DTI) and no pending bit, which tables
// with remote CAS need.
//
//     0       28      52       62      63
//     | entry | stamp | filter | empty | mark |      occupied
//     | number                 | empty | mark |      EMPTY
//
// No word returns to a slot: an occupied word contains the low bits of its owner's count of stores
// (stamp), an EMPTY word the count itself (number). A client that READs the same word twice therefore
// knows that the slot held it all the time between. `mark` is set in every word, so that zeroed
// memory is recognised.
#pragma once

#include <cstdint>

namespace loch::cuckoo {

class IndexWord {
 public:
  static constexpr std::uint32_t entry_bits = 28, stamp_bits = 24, most_filter_bits = 10;
  static constexpr std::uint64_t mark = std::uint64_t{1} << 63;

  [[nodiscard]] static constexpr std::uint64_t occupied(std::uint32_t entry, std::uint64_t store,
                                                        std::uint64_t filter) {
    return mark | (filter & mask(most_filter_bits)) << filter_at | (store & mask(stamp_bits)) << entry_bits |
           (entry & mask(entry_bits));
  }
  [[nodiscard]] static constexpr std::uint64_t empty(std::uint64_t store) {
    return mark | empty_bit | (store & mask(62));
  }
  [[nodiscard]] static constexpr bool is_stored(std::uint64_t word) { return (word & mark) != 0; }
  [[nodiscard]] static constexpr bool is_empty(std::uint64_t word) { return (word & empty_bit) != 0; }
  [[nodiscard]] static constexpr std::uint32_t entry(std::uint64_t word) {
    return static_cast<std::uint32_t>(word & mask(entry_bits));
  }
  [[nodiscard]] static constexpr std::uint64_t filter(std::uint64_t word) {
    return (word >> filter_at) & mask(most_filter_bits);
  }

 private:
  static constexpr std::uint32_t filter_at = entry_bits + stamp_bits;
  static constexpr std::uint64_t empty_bit = std::uint64_t{1} << 62;
  [[nodiscard]] static constexpr std::uint64_t mask(std::uint32_t bits) {
    return (std::uint64_t{1} << bits) - 1;
  }
  static_assert(filter_at + most_filter_bits == 62);
};

}  // namespace loch::cuckoo
