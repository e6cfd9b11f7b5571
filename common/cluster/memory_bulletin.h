// A bulletin in memory, between the threads of a test, each of which stands for a rank.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "common/cluster/bulletin.h"

namespace loch::cluster {

// The texts of all ranks. `change`, if there is one, makes of each posted text the one that is shown.
class SharedTexts {
 public:
  std::function<std::string(std::uint32_t rank, std::string text)> change;

  [[nodiscard]] std::string text_of(std::uint32_t rank) {
    const std::lock_guard lock(mutex_);
    return texts_[rank];
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    texts_.clear();
  }
  [[nodiscard]] std::unique_ptr<Bulletin> of(std::uint32_t rank) {
    return std::make_unique<End>(*this, rank);
  }

 private:
  class End final : public Bulletin {
   public:
    End(SharedTexts& all, std::uint32_t rank) : all_(all), rank_(rank) {}
    void post(const std::string& text) override {
      const std::lock_guard lock(all_.mutex_);
      all_.texts_[rank_] = all_.change ? all_.change(rank_, text) : text;
    }
    void expect(std::uint32_t rank) override { asked_.insert(rank); }
    std::optional<std::pair<std::uint32_t, std::string>> take() override {
      const std::lock_guard lock(all_.mutex_);
      for (const std::uint32_t rank : asked_) {
        if (all_.texts_[rank].empty()) continue;
        asked_.erase(rank);
        return std::pair(rank, all_.texts_[rank]);
      }
      return std::nullopt;
    }
    std::string failure() override { return ""; }
    void close(bool) override {}

   private:
    SharedTexts& all_;
    const std::uint32_t rank_;
    std::set<std::uint32_t> asked_;
  };

  std::mutex mutex_;
  std::map<std::uint32_t, std::string> texts_;
};

}  // namespace loch::cluster
