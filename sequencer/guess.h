// How a client of the speculating sequencer interprets replies that carry only the low bits of a number.
//
// A client sends with each request its guess of the number's high bits. If the guess is right, the reply has
// only the low bits; otherwise it has the whole number, which corrects the guess. A reply does not say which
// request it answers. While requests with the guesses h and h+1 are both unanswered, low bits may therefore
// belong to either. This is the known fault R1 (docs/protocols/seq-spec.md): of the replies with the numbers
// h:FE, h:FF and (h+1):00 (high bits, colon, low bits), the third reply overtakes the second and corrects the
// guess; h:FF is then read as (h+1):FF, which will be given out again later.
//
// The fix: as long as a request with guess h may be unanswered, low bits in the upper half belong to h, those
// in the lower half to h+1. This is wrong only if a reply is overtaken by half of all low numbers, 2^31.
#pragma once

#include <cstdint>

#include "common/base/units.h"

namespace loch::sequencer {

class Guess {
 public:
  // `bits`: number of low bits in a short reply. `lifetime`: longest time in ns until a request is answered
  // or lost. `is_fixed`: whether the fix of the known fault R1 (at the head of this file) is on; if not, low
  // bits are always combined with the newest guess, as published.
  Guess(std::uint32_t bits, Nanos lifetime, bool is_fixed)
      : bits_(bits), lifetime_(lifetime), is_fixed_(is_fixed) {}

  // Counts a request as sent, and returns the guess to send with it.
  [[nodiscard]] std::uint32_t send() {
    ++unanswered_;
    return static_cast<std::uint32_t>(high_);
  }
  // The number that a short reply with the low bits `low` stands for.
  [[nodiscard]] std::uint64_t short_reply(std::uint32_t low, Nanos now) {
    const bool is_of_previous =
        is_fixed_ && unanswered_before_ > 0 && now < until_ && low >> (bits_ - 1) != 0;
    std::uint32_t& unanswered = is_of_previous ? unanswered_before_ : unanswered_;
    if (unanswered > 0) --unanswered;
    return (is_of_previous ? high_ - 1 : high_) << bits_ | low;
  }
  // Handles a reply that has all bits of the number, because the guess that was sent with the request was
  // wrong. This client may have corrected its guess since.
  void whole_reply(std::uint64_t number, Nanos now) {
    const std::uint64_t high = number >> bits_;
    if (high <= high_) {
      if (high == high_ && unanswered_before_ > 0) --unanswered_before_;
      return;
    }
    if (unanswered_ > 0) --unanswered_;
    // Requests with even older guesses would be 2^bits numbers old, so they are not considered.
    unanswered_before_ = high == high_ + 1 ? unanswered_ : 0;
    unanswered_ = 0;
    until_ = now + lifetime_;
    high_ = high;
    ++corrections_;
  }

  [[nodiscard]] std::uint64_t corrections() const { return corrections_; }

 private:
  std::uint32_t bits_;
  Nanos lifetime_;
  bool is_fixed_;
  std::uint64_t high_ = 0;               // the guessed high bits
  std::uint32_t unanswered_ = 0;         // number of unanswered requests sent with the present guess
  std::uint32_t unanswered_before_ = 0;  // number of unanswered requests sent with the previous guess
  Nanos until_ = 0;  // time by which requests with the previous guess are answered or lost
  std::uint64_t corrections_ = 0;
};

}  // namespace loch::sequencer
