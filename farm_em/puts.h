// How PUTs reach a server and their answers come back. Two ways: numbered, over the write channel that
// all protocols with polled slots share (sent again when no answer comes, executed once); and published,
// S_K + S_V bytes into a polled slot and one byte back, with nothing that tells one request from the next.
//
// The server stores nothing; it notes what it executed, and a client compares: an answer to a request
// that was not executed, or a request that was executed twice, is a violation.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/protocol.h"
#include "farm_em/settings.h"

namespace loch::farm {

// What server workers executed, by request slot. Any thread.
class ExecutedPuts {
 public:
  explicit ExecutedPuts(std::uint32_t slots) : digests_(slots) {}
  void note(std::uint32_t slot, std::uint64_t digest) {
    digests_[slot].store(digest, std::memory_order_release);
    executed_.fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t last(std::uint32_t slot) const {
    return digests_[slot].load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t executed() const { return executed_.load(std::memory_order_relaxed); }

 private:
  std::vector<std::atomic<std::uint64_t>> digests_;
  std::atomic<std::uint64_t> executed_{0};
};

// Of a request: the key, and of the value what every memory keeps.
[[nodiscard]] std::uint64_t digest_of(const std::byte* key, std::uint32_t key_bytes, const std::byte* value,
                                      std::uint32_t value_bytes);

struct PutCounts {
  std::uint64_t begun = 0;  // requests that were sent, and so may have been executed
  std::uint64_t answered = 0;
  std::uint64_t unexecuted = 0;  // answered requests that were not what the server executed last
  std::uint64_t retries = 0, timeouts = 0;
  void add(const PutCounts& other);
};
// Adds them, and "violations".
void report(const PutCounts& sum, std::uint64_t executed, std::map<std::string, double>& counters);

// Bytes of a value that every memory keeps.
[[nodiscard]] std::uint32_t kept_of(const Settings& settings);

// One window slot's end. On its worker's thread.
class Putter {
 public:
  virtual ~Putter() = default;
  [[nodiscard]] virtual coro::Task<kv::OpResult> put(std::uint32_t node, kv::Key key, kv::ValueView value,
                                                     fabric::OpStats* stats) = 0;
  [[nodiscard]] const PutCounts& counts() const { return counts_; }

 protected:
  PutCounts counts_;
};

class PutChannel {
 public:
  virtual ~PutChannel() = default;
  [[nodiscard]] virtual Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) = 0;
  [[nodiscard]] virtual Result<> connect(fabric::Fabric& fabric) = 0;
  [[nodiscard]] virtual coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) = 0;
  // The channel owns the Putter.
  [[nodiscard]] virtual Putter& putter(fabric::Worker& worker, std::uint32_t slot) = 0;
  // "violations" among them.
  virtual void add_counters(std::map<std::string, double>& counters) const = 0;
};

[[nodiscard]] std::unique_ptr<PutChannel> make_published_puts(const Settings& settings);
[[nodiscard]] std::unique_ptr<PutChannel> make_numbered_puts(const Settings& settings);

}  // namespace loch::farm
