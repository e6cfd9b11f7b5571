// What a client of the speculating sequencer makes of replies that carry only the low bits of a number.
//
// A client sends with each request its guess of the number's high bits. If the guess is right, the reply
// holds the low bits alone; else the whole number, which corrects the guess. A reply does not say which
// request it answers. So, while requests with the guess h and with h+1 are both unanswered, low bits may
// belong to either (hole R1: numbers h:FE, h:FF, (h+1):00; the last reply overtakes the second; its
// number corrects the guess; h:FF is then read as (h+1):FF, which will be given out again).
//
// The fix: low bits in the upper half belong to h, in the lower half to h+1, as long as a request with
// h may still be answered. It is right unless a reply is overtaken by half of all low numbers: 2^31.
#pragma once

#include <cstdint>

#include "common/base/units.h"

namespace loch::sequencer {

class Guess {
 public:
  // `bits`: of a number that a short reply carries. `lifetime`: the longest that a reply may be on its
  // way. `is_fixed` false: as published, low bits are always taken for the newest guess's.
  Guess(std::uint32_t bits, Nanos lifetime, bool is_fixed)
      : bits_(bits), lifetime_(lifetime), is_fixed_(is_fixed) {}

  // The guess for the next request, which counts as sent.
  [[nodiscard]] std::uint32_t send() {
    ++unanswered_;
    return static_cast<std::uint32_t>(high_);
  }
  // The number of a short reply.
  [[nodiscard]] std::uint64_t short_reply(std::uint32_t low, Nanos now) {
    const bool is_of_previous =
        is_fixed_ && unanswered_before_ > 0 && now < until_ && low >> (bits_ - 1) != 0;
    std::uint32_t& unanswered = is_of_previous ? unanswered_before_ : unanswered_;
    if (unanswered > 0) --unanswered;
    return (is_of_previous ? high_ - 1 : high_) << bits_ | low;
  }
  // A whole number came: the guess was wrong, or is by now the former one.
  void whole_reply(std::uint64_t number, Nanos now) {
    const std::uint64_t high = number >> bits_;
    if (high <= high_) {
      if (high == high_ && unanswered_before_ > 0) --unanswered_before_;
      return;
    }
    if (unanswered_ > 0) --unanswered_;
    // Replies to older guesses than the former one would be 2^bits numbers old.
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
  std::uint64_t high_ = 0;               // the guess
  std::uint32_t unanswered_ = 0;         // requests that carry it
  std::uint32_t unanswered_before_ = 0;  // requests that carry the guess before it
  Nanos until_ = 0;                      // requests before this are answered by then, or never
  std::uint64_t corrections_ = 0;
};

}  // namespace loch::sequencer
