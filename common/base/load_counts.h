// What counters count in one load of several that the same store and fabric serve one after the other.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace loch {

// The counters themselves go on counting from load to load. For the second load and later ones, what the
// loads before have counted is taken off, so that the counters show what they would if the load were the
// only one: what was counted before the first load (by a preload) stays in.
class LoadCounts {
 public:
  using Counters = std::map<std::string, double>;

  // To be called when a load begins, with what the counters show then.
  void begin_load(const Counters& now) {
    if (has_begun_) {
      for (const auto& [name, value] : now) earlier_[name] = value - at_first(name);
    } else {
      first_ = now;
    }
    has_begun_ = true;
  }

  // Takes off what loads before the present one have counted. `levels`: counters that tell a state, such as a
  // number of bytes in use, and are left as they are.
  void take_off_earlier(Counters& counters, std::span<const std::string_view> levels = {}) const {
    for (auto& [name, value] : counters) {
      const auto found = earlier_.find(name);
      if (found != earlier_.end() && std::ranges::find(levels, name) == levels.end()) value -= found->second;
    }
  }

 private:
  // A counter that was not there when the first load began had counted nothing.
  [[nodiscard]] double at_first(const std::string& name) const {
    const auto found = first_.find(name);
    return found == first_.end() ? 0 : found->second;
  }

  bool has_begun_ = false;
  Counters first_;    // when the first load began
  Counters earlier_;  // counted by loads before the present one
};

}  // namespace loch
