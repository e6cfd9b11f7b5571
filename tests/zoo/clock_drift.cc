// A library for LD_PRELOAD whose clock_gettime() lets CLOCK_MONOTONIC gain LOCH_CLOCK_DRIFT parts per million
// from the start of the program on, for tests of runs whose clocks drift.
#include <dlfcn.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>

namespace {

using Gettime = int (*)(clockid_t, timespec*);
constexpr std::int64_t second_ns = 1'000'000'000;

std::int64_t nanos(const timespec& at) { return at.tv_sec * second_ns + at.tv_nsec; }

// The clock of the C library, the time at which this library was first asked, and the drift.
struct Clock {
  Gettime of_libc = reinterpret_cast<Gettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  std::int64_t began = 0;
  double ppm = 0;
  Clock() {
    timespec at{};
    of_libc(CLOCK_MONOTONIC, &at);
    began = nanos(at);
    if (const char* const text = std::getenv("LOCH_CLOCK_DRIFT")) ppm = std::strtod(text, nullptr);
  }
};

}  // namespace

extern "C" [[gnu::visibility("default")]] int clock_gettime(clockid_t which, timespec* at) noexcept {
  static const Clock clock;
  const int status = clock.of_libc(which, at);
  if (status != 0 || which != CLOCK_MONOTONIC || clock.ppm == 0) return status;
  const std::int64_t real = nanos(*at);
  const std::int64_t shown =
      real + static_cast<std::int64_t>(static_cast<double>(real - clock.began) * clock.ppm / 1e6);
  at->tv_sec = shown / second_ns;
  at->tv_nsec = shown % second_ns;
  return 0;
}
