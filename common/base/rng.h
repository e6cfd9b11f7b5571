// Random numbers that are determined by one seed. Each component draws from a sub-stream of its own name
// ("net", "client 3", …), so that an additional draw in one component changes no number of another.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace loch {

// SplitMix64's finaliser (Steele et al. 2014): a bijection on 64 bits.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// The seed of the sub-stream that `name` and `index` identify.
[[nodiscard]] constexpr std::uint64_t sub_seed(std::uint64_t seed, std::string_view name,
                                               std::uint64_t index = 0) {
  std::uint64_t h = mix64(seed ^ 0x6C6F6368ULL);
  for (const char c : name) h = mix64(h ^ static_cast<unsigned char>(c));
  return mix64(h ^ mix64(index));
}

// The generator xoshiro256** (Blackman and Vigna 2018). Satisfies uniform_random_bit_generator.
class Rng {
 public:
  using result_type = std::uint64_t;
  explicit Rng(std::uint64_t seed = 1) {
    for (auto& word : state_) word = seed = mix64(seed);
  }
  Rng(std::uint64_t seed, std::string_view name, std::uint64_t index = 0)
      : Rng(sub_seed(seed, name, index)) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }

  result_type operator()() {
    const std::uint64_t result = rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotl(state_[3], 45);
    return result;
  }
  // A uniform integer in [0, n) for n > 0, by Lemire's multiply-shift. Its bias is below 2^-64·n; no
  // number is rejected, so that each draw consumes exactly one number of the generator.
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<Wide>((*this)()) * n) >> 64);
  }
  // A uniform number in [0, 1) with 53 random bits.
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }
  bool chance(double p) { return uniform() < p; }
  // An exponentially distributed number with the given mean (> 0), in the unit of the mean.
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::uint64_t state_[4];
};

}  // namespace loch
