// A queue in one array, which grows when it is full and allocates nothing otherwise.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace loch::fabric::ofi {

template <typename T>
class Ring {
 public:
  explicit Ring(std::size_t capacity = 16) : items_(capacity) {}
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] T& front() { return items_[first_]; }
  void push(T item) {
    if (count_ == items_.size()) grow();
    items_[(first_ + count_++) % items_.size()] = std::move(item);
  }
  // The queue must not be empty.
  [[nodiscard]] T pop() {
    T item = std::move(items_[first_]);
    first_ = (first_ + 1) % items_.size();
    --count_;
    return item;
  }

 private:
  void grow() {
    std::vector<T> larger(items_.size() * 2);
    for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(items_[(first_ + i) % items_.size()]);
    items_ = std::move(larger);
    first_ = 0;
  }
  std::vector<T> items_;
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace loch::fabric::ofi
