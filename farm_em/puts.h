// How PUTs reach a server and how replies come back. Numbered PUTs use the write channel that all protocols
// with polled slots share: a request without a reply is sent again, and the server executes it once. A
// published PUT has no request number: the client WRITEs key and value into a polled slot, and the server
// WRITEs one byte back.
//
// The server stores no values. It records a digest of each request that it executed, and the client compares
// the digest with that of its own request: a reply to a request that was not executed, or a request that was
// executed twice, is a violation.
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

// For each request slot, the digest of the request that a server worker executed last. Thread-safe.
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

// Digest of a request: of its key and of the first bytes of its value, which a simulation stores even if it
// leaves out the rest of each value.
[[nodiscard]] std::uint64_t digest_of(const std::byte* key, std::uint32_t key_bytes, const std::byte* value,
                                      std::uint32_t value_bytes);

struct PutCounts {
  std::uint64_t begun = 0;  // number of requests sent, each of which may have been executed
  std::uint64_t answered = 0;
  std::uint64_t unexecuted = 0;  // replies for which the server's last executed request was another one
  std::uint64_t retries = 0, timeouts = 0;
  void add(const PutCounts& other);
};
// Adds the counts to `counters`, and the number of unexecuted requests also to the counter "violations".
void report(const PutCounts& sum, std::uint64_t executed, std::map<std::string, double>& counters);

// Number of bytes of each value that are stored; fewer than the value's size in a simulation that stores only
// the first bytes of each value.
[[nodiscard]] std::uint32_t kept_of(const Settings& settings);

// Sends the PUTs of one window slot (outstanding operation); used only by the thread of the slot's worker.
class Putter {
 public:
  virtual ~Putter() = default;
  [[nodiscard]] virtual coro::Task<kv::OpResult> put(std::uint32_t node, kv::Key key, kv::ValueView value,
                                                     fabric::OpStats* stats) = 0;
  [[nodiscard]] const PutCounts& counts() const { return counts_; }
  // Goes on counting from what the window slot's Putter of an earlier load has counted; null: there was none.
  void count_on_from(const Putter* earlier) {
    if (earlier != nullptr) counts_ = earlier->counts_;
  }

 protected:
  PutCounts counts_;
};

class PutChannel {
 public:
  virtual ~PutChannel() = default;
  [[nodiscard]] virtual Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) = 0;
  [[nodiscard]] virtual Result<> connect(fabric::Fabric& fabric) = 0;
  [[nodiscard]] virtual coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) = 0;
  // The Putter of window slot (outstanding operation) `slot` of the worker; the channel owns it.
  [[nodiscard]] virtual Putter& putter(fabric::Worker& worker, std::uint32_t slot) = 0;
  // Adds the channel's counters to `counters`, "violations" among them.
  virtual void add_counters(std::map<std::string, double>& counters) const = 0;
};

[[nodiscard]] std::unique_ptr<PutChannel> make_published_puts(const Settings& settings);
[[nodiscard]] std::unique_ptr<PutChannel> make_numbered_puts(const Settings& settings);

}  // namespace loch::farm
