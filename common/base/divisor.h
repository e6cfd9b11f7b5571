// Division by a number that is chosen at run time and then stays fixed. A multiplication by its reciprocal
// replaces the processor's division instruction, which takes about 15 cycles; the simulator divides several
// times per event.
#pragma once

#include <cstdint>

#include "common/base/check.h"

namespace loch {

// Quotients are exact for every n with n * divisor < 2^64, which covers() tests. Proof: the reciprocal,
// 2^64 / divisor rounded up, is too large by less than 1; so n * reciprocal / 2^64 is too large by less
// than 1 / divisor and cannot reach the next integer. With divisor 0 every quotient is 0.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(std::uint64_t divisor)
      : divisor_(divisor), reciprocal_(divisor == 0 ? 0 : ~std::uint64_t{0} / divisor + 1) {
    LOCH_CHECK(divisor != 1, "a Divisor of 1 has no 64-bit reciprocal");
  }
  [[nodiscard]] std::uint64_t value() const { return divisor_; }
  [[nodiscard]] bool covers(std::uint64_t n) const {
    return divisor_ == 0 || n <= ~std::uint64_t{0} / divisor_;
  }
  [[nodiscard]] std::uint64_t quotient(std::uint64_t n) const {
    return static_cast<std::uint64_t>(static_cast<Wide>(n) * reciprocal_ >> 64);
  }
  [[nodiscard]] std::uint64_t remainder(std::uint64_t n) const { return n - quotient(n) * divisor_; }

 private:
  __extension__ using Wide = unsigned __int128;
  std::uint64_t divisor_ = 0;
  std::uint64_t reciprocal_ = 0;
};

}  // namespace loch
