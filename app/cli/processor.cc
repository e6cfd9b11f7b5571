// Times loops over memory, cache lines, hashes, comparisons, copies and work requests.
#include "app/cli/processor.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "common/background_load/cores.h"
#include "common/cuckoo/hash_family.h"

namespace loch::cli {
namespace {

constexpr std::uint64_t line_bytes = 64, page_bytes = 4096;
constexpr std::uint32_t batches =
    41;  // batches of which the median counts: a thread may lose its core in some

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// ns that one round of `loop` takes, which does `count` rounds in a call: the median of many calls.
double time_of(std::uint64_t count, const std::function<void(std::uint64_t)>& loop) {
  std::vector<double> each;
  for (std::uint32_t i = 0; i < batches; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    loop(count);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    each.push_back(took.count() / static_cast<double>(count));
  }
  return median(std::move(each));
}

template <typename T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

std::uint64_t mixed(std::uint64_t x) {  // the finalizer of SplitMix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Anonymous memory of zeros in small or, where the kernel has them, huge pages.
class Memory {
 public:
  Memory(std::uint64_t bytes, bool is_huge) : bytes_(bytes) {
    void* got =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return;
    data_ = static_cast<std::byte*>(got);
    (void)madvise(data_, bytes, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    for (std::uint64_t at = 0; at < bytes; at += page_bytes) data_[at] = std::byte{0};
  }
  ~Memory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_;
};

// Time of loads of random lines, each of which waits for the one before, in the first `bytes` of the memory.
double chase(const Memory& memory, std::uint64_t bytes) {
  const std::uint64_t lines = bytes / line_bytes;
  std::uint64_t x = 1;
  const double time = time_of(20'000, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto line = static_cast<std::uint64_t>((static_cast<unsigned __int128>(mixed(x)) * lines) >> 64);
      std::uint64_t word;  // 0: all memory is
      std::memcpy(&word, memory.data() + line * line_bytes, sizeof word);
      x += word + 1;
    }
  });
  keep(x);
  return time;
}

// Time of a random load beyond what choosing its place takes.
double memory_time(const Memory& memory) {
  const double all = chase(memory, memory.bytes()), choosing = chase(memory, page_bytes);
  return std::max(0.0, all - choosing);
}

double cycle_time() {
  std::uint64_t x = 1;
  const double time = time_of(10'000, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
#if defined(__x86_64__)
      asm volatile("add $1,%0\nadd $1,%0\nadd $1,%0\nadd $1,%0\nadd $1,%0\nadd $1,%0\nadd $1,%0\nadd $1,%0\n"
                   : "+r"(x));
#else
      for (int j = 0; j < 8; ++j) asm volatile("" : "+r"(++x));
#endif
    }
  });
  return time / 8;
}

void pin_to(std::uint32_t core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Half of the time in which a word goes to another core and comes back; -1 if there is no other core.
double line_time() {
  const std::vector<std::uint32_t> cores = background::usable_cores();
  if (cores.size() < 2) return -1;
  alignas(line_bytes) std::atomic<std::uint64_t> word = 0;
  std::atomic<bool> ends = false;
  std::thread other([&] {
    pin_to(cores[1]);
    for (std::uint64_t turn = 1; !ends.load(std::memory_order_relaxed);) {
      if (word.load(std::memory_order_acquire) != turn) continue;
      word.store(turn + 1, std::memory_order_release);
      turn += 2;
    }
  });
  double time = 0;
  std::thread own([&] {
    pin_to(cores[0]);
    std::uint64_t turn = 1;
    time = time_of(2000, [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i, turn += 2) {
        word.store(turn, std::memory_order_release);
        while (word.load(std::memory_order_acquire) != turn + 1) {
        }
      }
    });
  });
  own.join();
  ends = true;
  other.join();
  return time / 2;
}

// The fixed part and the part of each byte of work on `little` and on `much` bytes.
std::pair<double, double> parts(double of_little, double little, double of_much, double much) {
  const double each = std::max(0.0, (of_much - of_little) / (much - little));
  return {std::max(0.0, of_little - each * little), each};
}

double hash_time(std::uint64_t bytes) {
  const cuckoo::HashFamily family({.nodes = 1, .slots_per_node = 1 << 20, .functions = 1}, 1);
  std::array<std::byte, 256> key{};
  std::uint64_t sum = 0;
  const double time = time_of(5000, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(key.data(), &sum, sizeof sum);  // waits for the hash before
      cuckoo::KeyHash hash = family.hash(std::span(key).first(bytes));
      sum += hash.candidate(0).slot;
    }
  });
  keep(sum);
  return time;
}

double compare_time(std::uint64_t bytes) {
  std::array<std::byte, 256> a{}, b{};
  std::uint64_t sum = 0;
  const double time = time_of(5000, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      keep(a);
      std::memcpy(a.data(), &sum, 0);
      sum += std::memcmp(a.data(), b.data(), bytes) == 0 ? 1 : 2;
    }
  });
  keep(sum);
  return time;
}

double copy_time(const Memory& memory, std::uint64_t bytes) {
  static std::array<std::byte, 8192> to;
  const std::uint64_t places = memory.bytes() / to.size();
  std::uint64_t x = 1;
  return time_of(2000, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto place =
          static_cast<std::uint64_t>((static_cast<unsigned __int128>(mixed(x)) * places) >> 64);
      std::memcpy(to.data(), memory.data() + place * to.size(), bytes);
      keep(to);
      x += static_cast<std::uint64_t>(to[0]) + 1;
    }
  });
}

double post_time() {
  alignas(line_bytes) static std::array<std::uint64_t, 8> to;
  std::uint64_t number = 0;
  return time_of(5000, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      // the words of a WRITE in mlx5's layout: control, remote address with key, local address with key
      alignas(line_bytes) const std::array<std::uint64_t, 8> request = {__builtin_bswap64(++number),
                                                                        __builtin_bswap64(0x08),
                                                                        __builtin_bswap64(number << 6),
                                                                        1,
                                                                        2,
                                                                        3,
                                                                        4,
                                                                        5};
      keep(request);
#if defined(__x86_64__)
      for (std::size_t word = 0; word < request.size(); ++word)
        _mm_stream_si64(reinterpret_cast<long long*>(&to[word]), static_cast<long long>(request[word]));
      _mm_sfence();
#else
      to = request;
      std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
    }
  });
}

}  // namespace

ProcessorCosts measure_processor(std::uint64_t memory_bytes) {
  ProcessorCosts costs;
  {
    const Memory small_pages(memory_bytes, false);
    if (small_pages.data() == nullptr) return costs;
    costs.memory = memory_time(small_pages);
    std::tie(costs.copy, costs.copy_byte) =
        parts(copy_time(small_pages, line_bytes), line_bytes, copy_time(small_pages, 8192), 8192);
  }
  const Memory huge_pages(memory_bytes, true);
  if (huge_pages.data() == nullptr) return costs;
  costs.memory_huge = memory_time(huge_pages);
  costs.memory_bytes = memory_bytes;
  costs.clock_ghz = 1 / cycle_time();
  costs.line = line_time();
  std::tie(costs.hash, costs.hash_byte) = parts(hash_time(16), 16, hash_time(256), 256);
  std::tie(costs.compare, costs.compare_byte) = parts(compare_time(16), 16, compare_time(256), 256);
  costs.post = post_time();
  return costs;
}

}  // namespace loch::cli
