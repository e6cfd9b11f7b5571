// A server's record of each request slot, so that a request that arrives twice is executed once.
//
// A client overwrites its slot only after the reply to the request in it has arrived. A request whose reply
// is late is sent again with the same sequence number (and another attempt number, so that the word that the
// server polls differs). Without this record, a PUT that is repeated because its reply was lost would be
// executed again, and overwrite newer data.
#pragma once

#include <cstdint>
#include <vector>

namespace loch::rpc {

enum class Freshness : std::uint8_t {
  fresh,     // a new request, to be executed
  repeated,  // the request that was executed last; its reply is sent again
  stale,     // an older request, of which the client has received the reply
};

class Duplicates {
 public:
  // `first`: where requests carry only the low bits of their sequence numbers, the first request of each slot
  // is taken to have the number nearest to `first` (extend_sequence).
  explicit Duplicates(std::uint32_t slots, std::uint64_t first = 0) : slots_(slots), seen_(slots) {
    for (Slot& slot : slots_) slot.last = first;
  }

  // Whether this trailer (last word of a request, which the server polls) differs from the one that was
  // processed last in the request slot.
  [[nodiscard]] bool is_news(std::uint32_t slot, std::uint64_t word) const {
    return word != 0 && word != seen_[slot];
  }
  void looked_at(std::uint32_t slot, std::uint64_t word) { seen_[slot] = word; }
  // For each request slot the trailer (polled last word of a request) that was processed last, for
  // WatchSet::known.
  [[nodiscard]] const std::uint64_t* seen() const { return seen_.data(); }

  // Judges a request by its sequence number. The numbers of a slot only increase, and may jump: a restarted
  // client takes its first number from its clock.
  [[nodiscard]] Freshness judge(std::uint32_t slot, std::uint64_t sequence) const {
    const Slot& known = slots_[slot];
    if (!known.has_executed || sequence > known.last) return Freshness::fresh;
    return sequence == known.last ? Freshness::repeated : Freshness::stale;
  }
  // Records that the request was executed and that its reply, of `reply_bytes` bytes, is kept.
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
    std::uint64_t last = 0;  // sequence number of the request that was executed last
    std::uint32_t reply_bytes = 0;
    bool has_executed = false;
  };
  std::vector<Slot> slots_;
  // For each request slot the trailer (polled last word of a request) that was processed last. Not in Slot,
  // because polling reads these words alone.
  std::vector<std::uint64_t> seen_;
};

}  // namespace loch::rpc
