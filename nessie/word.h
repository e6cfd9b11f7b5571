// The index table entry (ITE): one 64-bit word, little-endian, naturally aligned, accessed only by the
// NIC.
//
//   2017           0      8                40                54        55        62      63
//   published      | DTI  | DTE index      | 0               | 0       | filter  | empty | watermark
//   hardened       | DTI  | DTE index | INC| GEN             | pending | filter  | empty | watermark
//   bits             8      28          4    14                1         7         1       1
//
//   2015           0      15-f   15               47                    63
//                  | DTI  |filter| offset (0: empty) | version          | watermark
//   bits             15-f    f     32                  16                 1
//
// DTI is the node whose data table holds the entry. For clusters of more than 256 nodes it can be wider than
// the papers' 8 bits (nessie.dti-bits); it takes the bits from the DTE index. INC is the incarnation of that
// node's memory (modulo 16): it is incremented when the node is declared lost, and a word with an older one
// names nothing. GEN counts the reuses of that DTE and starts at 1, so that uses of a DTE have different
// words until GEN wraps around (H16 in docs/protocols/nessie.md); a table in its initial state holds GEN 0.
// Wider filters take bits from GEN. An EMPTY word of the hardened variant keeps DTI, index and GEN of the
// slot's last occupant; if its `pending` bit is set, a MIGRATE emptied the slot, and DTI, index and GEN name
// the copy (the word is then called a tag, H12). The watermark is in the last byte by address and is set in
// every stored word: a client zeroes the buffer of its READ and polls for it.
#pragma once

#include <cstdint>

#include "common/base/check.h"
#include "nessie/rules.h"

namespace loch::nessie {

using Word = std::uint64_t;

// The watermark: this bit is set in every word whose arrival a client polls for (index word, and header and
// tail of a data table entry).
constexpr Word watermark_bit = Word{1} << 63;

// One use of a data table entry (DTE): the node and index of the DTE, and the generation and incarnation of
// this use.
struct EntryId {
  std::uint32_t node = 0;
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::uint32_t incarnation = 0;  // incarnation of the node's memory, modulo `incarnations`
  friend bool operator==(const EntryId&, const EntryId&) = default;
};

// A word stores the incarnation of a node's memory modulo this number. The seven values before an incarnation
// count as older ones, the eight others do not.
constexpr std::uint32_t incarnations = 16;
[[nodiscard]] constexpr bool is_older(std::uint32_t incarnation, std::uint32_t than) {
  const std::uint32_t behind = (than - incarnation) % incarnations;
  return behind != 0 && behind < incarnations / 2;
}

enum class Layout : std::uint8_t { y2017, y2015 };

// Bits of the DTI, an index word's field for the node's number: as in the papers, and the most that leave
// room for the index of an entry.
constexpr std::uint32_t paper_dti_bits = 8, most_dti_bits = 16;

class WordFormat {
 public:
  WordFormat(Layout layout, const Rules& rules, std::uint32_t filter_bits,
             std::uint32_t dti_bits = paper_dti_bits)
      : filter_bits_(filter_bits),
        dti_bits_(dti_bits),
        is_2015_(layout == Layout::y2015),
        is_unique_(rules.empty == EmptyWord::unique),
        has_incarnation_(layout == Layout::y2017 && rules.has_incarnation) {
    if (is_2015_) {
      filter_at_ = 15 - filter_bits;
      dti_bits_ = filter_at_;
    } else {
      filter_at_ = 62 - filter_bits;
      pending_ = Word{1} << (filter_at_ - 1);
      const std::uint32_t room = filter_at_ - 1 - generation_at;
      if (rules.has_generation) generation_bits_ = room < 14 ? room : 14;
    }
    LOCH_CHECK(filter_bits <= 15, "{} filter bits", filter_bits);
    LOCH_CHECK(dti_bits <= most_dti_bits, "{} bits of the DTI", dti_bits);
  }

  // The largest number of filter bits that leaves room for the other fields; `nodes` matters only for the
  // 2015 layout.
  [[nodiscard]] static std::uint32_t most_filter_bits(Layout layout, const Rules& rules,
                                                      std::uint32_t nodes) {
    if (layout == Layout::y2017) return rules.has_generation ? 11 : 15;
    std::uint32_t dti_bits = 0;
    while ((1U << dti_bits) < nodes) ++dti_bits;
    return 15 - dti_bits;
  }

  // The word of an EMPTY index slot that never held an entry.
  [[nodiscard]] Word initial_empty() const { return is_2015_ ? watermark_bit : watermark_bit | empty_bit; }
  // The EMPTY word for a share of the index that was initialised again after its node was declared lost.
  [[nodiscard]] Word initial_empty(std::uint32_t incarnation) const {
    return initial_empty() | Word{incarnation % incarnations} << incarnation_at;
  }
  // The largest number of data table entries (DTEs) on a node that a word can name.
  [[nodiscard]] std::uint64_t most_entries() const { return is_2015_ ? 0xFFFF'FFFF : mask(index_bits()); }

  // Whether a word was ever stored: every stored word has the watermark (a bit that is always set), zeroed
  // memory does not.
  [[nodiscard]] static bool is_stored(Word word) { return (word & watermark_bit) != 0; }

  [[nodiscard]] bool is_empty(Word word) const {
    return is_2015_ ? ((word >> offset_at_2015) & 0xFFFF'FFFF) == 0 : (word & empty_bit) != 0;
  }
  [[nodiscard]] std::uint64_t filter(Word word) const { return (word >> filter_at_) & mask(filter_bits_); }
  // The entry that an occupied word names. An EMPTY word of the hardened variant names the slot's last
  // occupant or, if it is a tag, the copy that a MIGRATE (move of a key) made.
  [[nodiscard]] EntryId entry(Word word) const {
    if (is_2015_) {
      return {static_cast<std::uint32_t>(word & mask(dti_bits_)),
              static_cast<std::uint32_t>((word >> offset_at_2015) - 1), 0};
    }
    return {static_cast<std::uint32_t>(word & mask(dti_bits_)),
            static_cast<std::uint32_t>((word >> dti_bits_) & mask(index_bits())),
            static_cast<std::uint32_t>((word >> generation_at) & mask(generation_bits_)),
            has_incarnation_ ? static_cast<std::uint32_t>((word >> incarnation_at) & mask(4)) : 0};
  }
  // Whether the word (occupied, or EMPTY with a tag that names the copy made by a MIGRATE) names exactly this
  // use of the entry.
  [[nodiscard]] bool names(Word word, const EntryId& id) const { return entry(word) == id; }
  [[nodiscard]] bool has_incarnation() const { return has_incarnation_; }
  [[nodiscard]] bool has_generation() const { return generation_bits_ != 0; }
  [[nodiscard]] bool is_pending(Word word) const { return !is_empty(word) && (word & pending_) != 0; }
  // Whether the index slot is EMPTY because a MIGRATE (move of a key) emptied it.
  [[nodiscard]] bool is_tagged(Word word) const { return is_empty(word) && (word & pending_) != 0; }

  // The word by which a CAS links entry `id` in an index slot that holds the word `replaced`.
  [[nodiscard]] Word occupied(const EntryId& id, std::uint64_t filter_value, bool is_pending,
                              Word replaced) const {
    if (is_2015_) {
      return watermark_bit | next_version(replaced) | (std::uint64_t{id.index} + 1) << offset_at_2015 |
             filter_value << filter_at_ | id.node;
    }
    return watermark_bit | filter_value << filter_at_ | (is_pending ? pending_ : 0) |
           (std::uint64_t{id.generation} & mask(generation_bits_)) << generation_at |
           (has_incarnation_ ? Word{id.incarnation} << incarnation_at : 0) |
           std::uint64_t{id.index} << dti_bits_ | id.node;
  }
  [[nodiscard]] Word committed(Word word) const { return word & ~pending_; }
  // The EMPTY word that replaces `word` when its index slot is emptied.
  [[nodiscard]] Word emptied(Word word) const {
    if (is_2015_) return watermark_bit | next_version(word);
    return is_unique_ ? (word & ~pending_) | empty_bit : initial_empty();
  }
  // The word to which a MIGRATE (move of a key) sets its source slot; `copy` is the word of the MIGRATE's
  // copy.
  [[nodiscard]] Word tagged(Word copy) const { return (copy & ~pending_) | empty_bit | pending_; }

  // The generation that follows `generation`; 0 belongs to the initial table and never returns.
  [[nodiscard]] std::uint32_t next_generation(std::uint32_t generation) const {
    const auto next =
        static_cast<std::uint32_t>((generation + 1) & mask(generation_bits_ == 0 ? 14 : generation_bits_));
    return next == 0 ? 1 : next;
  }
  // The generation before `generation`: the inverse of next_generation().
  [[nodiscard]] std::uint32_t generation_before(std::uint32_t generation) const {
    return generation <= 1 ? 0 : generation - 1;
  }
  // Whether a data table entry (DTE) whose header has generation `stored` is the one that the word names;
  // always true if words have no generation.
  [[nodiscard]] bool is_same_generation(Word word, std::uint32_t stored) const {
    return generation_bits_ == 0 || entry(word).generation == (stored & mask(generation_bits_));
  }

 private:
  static constexpr Word empty_bit = Word{1} << 62;
  // Bits of the field for the index of a data table entry (DTE) in the 2017 layout.
  [[nodiscard]] std::uint32_t index_bits() const {
    return (has_incarnation_ ? incarnation_at : generation_at) - dti_bits_;
  }
  static constexpr std::uint32_t incarnation_at = 36;
  static constexpr std::uint32_t generation_at = 40;
  static constexpr std::uint32_t offset_at_2015 = 15;
  static constexpr std::uint32_t version_at = 47;
  [[nodiscard]] static constexpr std::uint64_t mask(std::uint32_t bits) {
    return (std::uint64_t{1} << bits) - 1;
  }
  [[nodiscard]] static Word next_version(Word word) {
    return (((word >> version_at) + 1) & 0xFFFF) << version_at;
  }

  std::uint32_t filter_bits_;
  std::uint32_t dti_bits_;
  std::uint32_t filter_at_ = 0;
  std::uint32_t generation_bits_ = 0;
  Word pending_ = 0;
  bool is_2015_;
  bool is_unique_;
  bool has_incarnation_;
};

}  // namespace loch::nessie
