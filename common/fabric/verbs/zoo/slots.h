// A table of objects that threads find by number. find() pins the entry while the caller uses the object, and
// remove() waits until no thread has it pinned. Two calls of find() must not synchronize their threads:
// ThreadSanitizer would take the accesses of both threads to one memory region for ordered and miss their
// races.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <type_traits>
#include <utility>

namespace loch::fabric::verbs::zoo {

template <typename T>
class Slots {
 public:
  static constexpr std::uint32_t size = 1u << 16;

  class Pin {
   public:
    Pin() = default;
    Pin(T* object, std::atomic<std::uint32_t>* users) : object_(object), users_(users) {}
    Pin(Pin&& other) noexcept : object_(std::exchange(other.object_, nullptr)), users_(other.users_) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (object_ != nullptr) users_->fetch_sub(1, std::memory_order_release);
    }
    explicit operator bool() const { return object_ != nullptr; }
    [[nodiscard]] T* get() const { return object_; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }

   private:
    T* object_ = nullptr;
    std::atomic<std::uint32_t>* users_ = nullptr;
  };

  [[nodiscard]] Pin find(std::uint32_t index) {
    Entry& entry = entries_[index % size];
    entry.users.fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(
        // Orders the increment of `users` before the load of `object`; remove() clears `object` first and
        // then reads `users`.
        std::memory_order_seq_cst);
    T* object = entry.object.load(std::memory_order_acquire);
    if (object == nullptr) entry.users.fetch_sub(1, std::memory_order_release);
    return {object, &entry.users};
  }
  [[nodiscard]] bool is_free(std::uint32_t index) const {
    return entries_[index % size].object.load(std::memory_order_relaxed) == nullptr;
  }
  // Stores the object at `index`. False if another object is there.
  [[nodiscard]] bool put(std::uint32_t index, T* object) {
    T* none = nullptr;
    return entries_[index % size].object.compare_exchange_strong(none, object, std::memory_order_acq_rel,
                                                                 std::memory_order_relaxed);
  }
  void remove(std::uint32_t index) {
    Entry& entry = entries_[index % size];
    entry.object.store(nullptr, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    while (entry.users.load(std::memory_order_acquire) != 0) sched_yield();
  }

 private:
  struct Entry {
    std::atomic<T*> object = nullptr;
    std::atomic<std::uint32_t> users = 0;
  };
  static_assert(std::is_trivially_destructible_v<Entry>);
  struct Free {
    void operator()(Entry* entries) const { std::free(entries); }
  };
  // An empty entry is all zeros, which calloc() has without touching a megabyte of pages.
  std::unique_ptr<Entry[], Free> entries_{static_cast<Entry*>(std::calloc(size, sizeof(Entry)))};
};

}  // namespace loch::fabric::verbs::zoo
