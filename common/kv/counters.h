// Counters of a protocol, each declared together with its name in the results.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace loch::kv {

class Counter;

// Base of a struct whose members are Counters. A worker of its own thread counts in it.
class Counters {
 public:
  Counters() = default;
  Counters(const Counters&) = delete;
  // Adds each counter to the entry of `all` that has its name.
  void add_to(std::map<std::string, double>& all) const;

 private:
  friend class Counter;
  std::vector<const Counter*> counters_;
};

class Counter {
 public:
  // `of` is the struct that has this member.
  Counter(Counters& of, const char* name) : name_(name) { of.counters_.push_back(this); }
  Counter(const Counter&) = delete;
  Counter& operator++() {
    ++count_;
    return *this;
  }
  Counter& operator+=(std::uint64_t more) {
    count_ += more;
    return *this;
  }

 private:
  friend class Counters;
  const char* name_;
  std::uint64_t count_ = 0;
};

inline void Counters::add_to(std::map<std::string, double>& all) const {
  for (const Counter* counter : counters_) all[counter->name_] += static_cast<double>(counter->count_);
}

}  // namespace loch::kv
