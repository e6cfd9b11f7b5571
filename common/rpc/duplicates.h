// What a server remembers of each request slot, so that a request which comes twice is executed once.
//
// A client rewrites its slot only when the reply to what is in it has come; a request whose reply is late
// is sent again with the same sequence number (and another attempt, so that the polled word differs).
// Without this a repeated PUT whose reply was lost is executed again, over newer data.
#pragma once

#include <cstdint>
#include <vector>

namespace loch::rpc {

enum class Freshness : std::uint8_t {
  fresh,     // a new request, to be executed
  repeated,  // the request that was executed last, to be answered again
  stale,     // older: its client has had the answer
};

class Duplicates {
 public:
  // `first`: where numbers are extended from that lack their high bits (extend_sequence).
  explicit Duplicates(std::uint32_t slots, std::uint64_t first = 0) : slots_(slots), seen_(slots) {
    for (Slot& slot : slots_) slot.last = first;
  }

  // Whether this trailer word has not been looked at yet.
  [[nodiscard]] bool is_news(std::uint32_t slot, std::uint64_t word) const {
    return word != 0 && word != seen_[slot];
  }
  void looked_at(std::uint32_t slot, std::uint64_t word) { seen_[slot] = word; }
  // The word of each slot that was looked at last, for WatchSet::known.
  [[nodiscard]] const std::uint64_t* seen() const { return seen_.data(); }

  // Sequence numbers of a slot grow, from any number on: a client that comes back begins at its clock.
  [[nodiscard]] Freshness judge(std::uint32_t slot, std::uint64_t sequence) const {
    const Slot& known = slots_[slot];
    if (!known.has_executed || sequence > known.last) return Freshness::fresh;
    return sequence == known.last ? Freshness::repeated : Freshness::stale;
  }
  // Records that the request was executed; its reply of `reply_bytes` bytes is kept.
  void executed(std::uint32_t slot, std::uint64_t sequence, std::uint32_t reply_bytes) {
    Slot& known = slots_[slot];
    known.last = sequence;
    known.reply_bytes = reply_bytes;
    known.has_executed = true;
  }
  [[nodiscard]] std::uint64_t last(std::uint32_t slot) const { return slots_[slot].last; }
  [[nodiscard]] std::uint32_t reply_bytes(std::uint32_t slot) const { return slots_[slot].reply_bytes; }

 private:
  struct Slot {
    std::uint64_t last = 0;  // the sequence last executed
    std::uint32_t reply_bytes = 0;
    bool has_executed = false;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint64_t>
      seen_;  // the trailer words last looked at; apart, since polling reads them alone
};

}  // namespace loch::rpc
