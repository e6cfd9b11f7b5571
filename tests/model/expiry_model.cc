#include "tests/model/expiry_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace loch::model {
namespace {

constexpr int pool = 2;
constexpr int incarnations_max = 8;
constexpr std::int8_t unset = -1;

struct IndexWord {
  std::int8_t entry = 0;
  std::int8_t version = 0;
  std::int8_t generation = 0;
  friend bool operator==(IndexWord, IndexWord) = default;
};

enum class Phase : std::int8_t { idle, has_word, checked, has_entry, over };

// The reader or the putter: what it saw, and when it began.
struct Actor {
  Phase phase = Phase::idle;
  std::int8_t began = 0;
  IndexWord word;
  std::int8_t linked = 0;  // the incarnation linked when it read the word
  std::int8_t got = 0;     // the incarnation that it read from the entry
};

struct Cached {
  IndexWord word;
  std::int8_t incarnation = unset;  // unset: nothing is cached
  std::int8_t until = 0;
};

// Bytes without padding, hashed and compared as such.
struct Moment {
  std::int8_t now = 0;
  IndexWord word;
  std::array<std::int8_t, pool> incarnation{};
  std::array<std::int8_t, pool> stamp{};
  std::array<std::int8_t, pool> generation{};
  std::int8_t next = 1;  // incarnation
  Actor reader;
  Actor putter;
  Cached cached;
};
static_assert(std::has_unique_object_representations_v<Moment>);

class ExpiryExplorer {
 public:
  explicit ExpiryExplorer(const ExpiryRules& rules) : rules_(rules) {}

  ExpiryResult run() {
    Moment first;
    first.incarnation = {0, unset};
    first.stamp = {unset, unset};
    push(first, "");
    for (at_ = 0; at_ < moments_.size(); ++at_) {
      const Moment here = moments_[at_];
      if (here.now < rules_.ticks) tick(here);
      for (std::int8_t entry = 0; entry < pool; ++entry) write(here, entry);
      read(here);
      if (rules_.cache == CacheRule::off) put_slowly(here);
    }
    result_.states = moments_.size();
    return std::move(result_);
  }

 private:
  void push(const Moment& moment, std::string text) {
    std::string bytes(reinterpret_cast<const char*>(&moment), sizeof moment);
    if (!seen_.emplace(std::move(bytes), moments_.size()).second) return;
    moments_.push_back(moment);
    came_from_.push_back({at_, std::move(text)});
  }

  void report(std::string* where, const Moment& here, const std::string& last) {
    if (!where->empty()) return;
    std::vector<std::string> steps = {fmt::format("t={} {}", here.now, last)};
    for (std::size_t i = at_; i != 0; i = came_from_[i].parent) {
      steps.push_back(fmt::format("t={} {}", moments_[came_from_[i].parent].now, came_from_[i].text));
    }
    std::ranges::reverse(steps);
    for (const std::string& step : steps) where->append("  ").append(step).append("\n");
  }

  void tick(Moment m) {
    ++m.now;
    push(m, "a tick");
  }

  [[nodiscard]] std::int8_t linked(const Moment& m) const {
    return m.incarnation[static_cast<std::size_t>(m.word.entry)];
  }
  [[nodiscard]] bool in_time(const Moment& m, const Actor& a) const {
    return m.now - a.began <= rules_.expiry;
  }

  // A whole PUT by the writer: the pieces that matter are when it takes the entry and what it stamps.
  void write(Moment m, std::int8_t entry) {
    const auto e = static_cast<std::size_t>(entry);
    if (entry == m.word.entry || m.next > incarnations_max) return;
    const bool never_used = m.incarnation[e] == unset;
    const bool expired = m.stamp[e] != unset && m.now + rules_.owner_ahead >= m.stamp[e] + rules_.margin;
    if (!never_used && !expired) return;
    const auto old = static_cast<std::size_t>(m.word.entry);
    m.incarnation[e] = m.next++;
    m.stamp[e] = unset;
    m.stamp[old] =
        static_cast<std::int8_t>(rules_.torn_mark ? 0 : m.now + rules_.unlinker_ahead + rules_.expiry);
    if (rules_.generation_bits > 0 && !never_used) {
      m.generation[e] = static_cast<std::int8_t>((m.generation[e] + 1) % (1 << rules_.generation_bits));
    }
    m.word.entry = entry;
    m.word.generation = m.generation[e];
    if (rules_.version_bits > 0)
      m.word.version = static_cast<std::int8_t>((m.word.version + 1) % (1 << rules_.version_bits));
    push(m, fmt::format("PUT: entry {} becomes incarnation {} and is linked; entry {} is stamped {}", entry,
                        m.incarnation[e], old, m.stamp[old]));
  }

  void read(const Moment& m) {
    switch (m.reader.phase) {
      case Phase::idle:
        read_word(m);
        break;
      case Phase::has_word: {
        if (rules_.check == AgeCheck::before_entry && !in_time(m, m.reader)) break;
        Moment next = m;
        next.reader.phase = Phase::checked;
        push(next, "GET: goes on to the entry");
        break;
      }
      case Phase::checked: {
        Moment next = m;
        next.reader.phase = Phase::has_entry;
        next.reader.got = m.incarnation[static_cast<std::size_t>(m.reader.word.entry)];
        push(next, fmt::format("GET: READ entry {}: incarnation {}", m.reader.word.entry, next.reader.got));
        break;
      }
      case Phase::has_entry:
        finish_read(m);
        break;
      case Phase::over:
        break;
    }
  }

  void read_word(Moment m) {
    const bool hit = rules_.cache != CacheRule::off && m.cached.incarnation != unset &&
                     m.cached.word == m.word && m.now < m.cached.until;
    if (!hit) {
      m.reader = {Phase::has_word, m.now, m.word, linked(m), 0};
      push(m, fmt::format("GET: READ word: entry {}, incarnation {}", m.word.entry, linked(m)));
      return;
    }
    const std::string text =
        fmt::format("GET: READ word: entry {}; the cache answers incarnation {}, linked is {}", m.word.entry,
                    m.cached.incarnation, linked(m));
    if (m.cached.incarnation != linked(m)) report(&result_.stale_hit, m, text);
    const int until = rules_.cache == CacheRule::until_index_read_plus_e ? m.now + rules_.expiry
                                                                         : m.cached.until + rules_.expiry;
    m.cached.until = static_cast<std::int8_t>(std::min(until, rules_.ticks + 2));
    push(m, text);
  }

  void finish_read(Moment m) {
    const Actor done = m.reader;
    if (rules_.check == AgeCheck::after_entry && !in_time(m, done)) {
      m.reader = {Phase::over};
      push(m, "GET: too old, gives up");
      return;
    }
    const std::string text = fmt::format("GET: returns incarnation {}; linked at its READ of the word was {}",
                                         done.got, done.linked);
    if (done.got != done.linked) report(&result_.wrong_incarnation, m, text);
    m.reader = {rules_.cache == CacheRule::off ? Phase::over : Phase::idle};
    if (rules_.cache != CacheRule::off) {
      m.cached = {done.word, done.got, static_cast<std::int8_t>(done.began + rules_.expiry)};
    }
    push(m, text);
  }

  void put_slowly(Moment m) {
    const Actor actor = m.putter;
    if (actor.phase == Phase::idle) {
      m.putter = {Phase::has_word, m.now, m.word, linked(m), 0};
      push(m, fmt::format("slow PUT: READ word: entry {}, incarnation {}", m.word.entry, linked(m)));
    } else if (actor.phase == Phase::has_word && (rules_.check == AgeCheck::none || in_time(m, actor))) {
      m.putter.phase = Phase::checked;
      push(m, "slow PUT: is in time, posts its CAS");
    } else if (actor.phase == Phase::checked) {
      // However late: its effect on the slot is not needed to judge it.
      const std::string text =
          fmt::format("slow PUT: CAS executes and {}; it expects incarnation {}, linked is {}",
                      m.word == actor.word ? "succeeds" : "fails", actor.linked, linked(m));
      if (m.word == actor.word && linked(m) != actor.linked) report(&result_.aba, m, text);
      m.putter = {Phase::over};
      push(m, text);
    }
  }

  struct CameFrom {
    std::size_t parent;
    std::string text;
  };

  ExpiryRules rules_;
  std::unordered_map<std::string, std::size_t> seen_;
  std::vector<Moment> moments_;
  std::vector<CameFrom> came_from_;
  std::size_t at_ = 0;
  ExpiryResult result_;
};

}  // namespace

ExpiryResult explore_expiry(const ExpiryRules& rules) { return ExpiryExplorer(rules).run(); }

}  // namespace loch::model
