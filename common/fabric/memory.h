// CPU accesses to registered memory that a peer may be reading or writing at the same time. Copies use
// relaxed atomics of 8 bytes (of 1 byte at unaligned ends), so that a race with a one-sided operation is what
// the hardware makes of it and not undefined behaviour. A race that ThreadSanitizer reports all the same is a
// bug of the protocol. load_word() acquires and store_word_release() releases.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace loch::fabric {

namespace detail {
inline bool is_aligned(const void* p) { return (reinterpret_cast<std::uintptr_t>(p) & 7) == 0; }
// atomic_ref<T> of a const object: libstdc++ has no atomic_ref<const T> yet, and a load does not write.
template <typename T>
[[nodiscard]] inline T load(const std::byte* from, std::memory_order order) {
  return std::atomic_ref<T>(*reinterpret_cast<T*>(const_cast<std::byte*>(from))).load(order);
}
template <typename T>
inline void store(std::byte* to, T value, std::memory_order order) {
  std::atomic_ref<T>(*reinterpret_cast<T*>(to)).store(value, order);
}
}  // namespace detail

[[nodiscard]] inline std::uint64_t load_word(const std::byte* word) {
  return detail::load<std::uint64_t>(word, std::memory_order_acquire);
}
inline void store_word_release(std::byte* word, std::uint64_t value) {
  detail::store(word, value, std::memory_order_release);
}

// Copies out of shared memory into private memory.
inline void copy_from_shared(void* to, const std::byte* from, std::size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  for (; bytes != 0 && !detail::is_aligned(from); --bytes) {
    *out++ = detail::load<std::byte>(from++, std::memory_order_relaxed);
  }
  for (; bytes >= 8; bytes -= 8, from += 8, out += 8) {
    const auto word = detail::load<std::uint64_t>(from, std::memory_order_relaxed);
    std::memcpy(out, &word, 8);
  }
  for (; bytes != 0; --bytes) *out++ = detail::load<std::byte>(from++, std::memory_order_relaxed);
}

// Copies private memory into shared memory.
inline void copy_to_shared(std::byte* to, const void* from, std::size_t bytes) {
  const auto* in = static_cast<const std::byte*>(from);
  for (; bytes != 0 && !detail::is_aligned(to); --bytes) {
    detail::store(to++, *in++, std::memory_order_relaxed);
  }
  for (; bytes >= 8; bytes -= 8, to += 8, in += 8) {
    std::uint64_t word;
    std::memcpy(&word, in, 8);
    detail::store(to, word, std::memory_order_relaxed);
  }
  for (; bytes != 0; --bytes) detail::store(to++, *in++, std::memory_order_relaxed);
}

// Copies between two shared memories, in ascending order of addresses, as a one-sided READ or WRITE on shm
// does. Aligned blocks of 16 bytes are moved at once: x86-64 processors with AVX tear none of them, and
// reorder neither loads with loads nor stores with stores.
inline void copy_shared(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto step = [&] {
    detail::store(to, detail::load<std::uint64_t>(from, std::memory_order_relaxed),
                  std::memory_order_relaxed);
    bytes -= 8, to += 8, from += 8;
  };
  if (detail::is_aligned(to) && detail::is_aligned(from)) {
#if defined(__x86_64__) && !defined(LOCH_TSAN) && !defined(LOCH_ASAN)
    const bool is_alike =
        ((reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from)) & 15) == 0;
    if (is_alike && bytes >= 40) {
      if ((reinterpret_cast<std::uintptr_t>(to) & 15) != 0) step();
      for (; bytes >= 32; bytes -= 32, to += 32, from += 32) {
        asm volatile(
            "movdqa (%1), %%xmm0\n\tmovdqa 16(%1), %%xmm1\n\t"
            "movdqa %%xmm0, (%0)\n\tmovdqa %%xmm1, 16(%0)"
            :
            : "r"(to), "r"(from)
            : "xmm0", "xmm1", "memory");
      }
    }
#endif
    while (bytes >= 8) step();
  }
  for (; bytes != 0; --bytes) {
    detail::store(to++, detail::load<std::byte>(from++, std::memory_order_relaxed),
                  std::memory_order_relaxed);
  }
}

// Copies a message out of shared memory into a buffer that belongs to the sender, a receive buffer that is
// not marked as filled yet included, so that no part of it has to appear at once.
[[gnu::always_inline]] inline void copy_message(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__) && !defined(LOCH_TSAN) && !defined(LOCH_ASAN)
  for (; bytes >= 32; bytes -= 32, to += 32, from += 32) {
    asm volatile(
        "movdqu (%1), %%xmm0\n\tmovdqu 16(%1), %%xmm1\n\t"
        "movdqu %%xmm0, (%0)\n\tmovdqu %%xmm1, 16(%0)"
        :
        : "r"(to), "r"(from)
        : "xmm0", "xmm1", "memory");
  }
#endif
  if (bytes != 0) copy_shared(to, from, bytes);
}

}  // namespace loch::fabric
