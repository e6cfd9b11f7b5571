// One slot of a client's window (it has one operation outstanding at a time), operated by a test, with keys
// and values given by number (records.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/coro/task.h"
#include "common/kv/protocol.h"
#include "tests/support/records.h"

namespace loch::support {

// Issues a client's operations one at a time. The client has to outlive the Hand, and the Hand its
// coroutines.
class Hand {
 public:
  Hand(kv::Client& client, const kv::DeployConfig& config)
      : client_(client), config_(config), key_(config.key_size), value_(config.value_size) {}

  [[nodiscard]] coro::Task<kv::OpResult> get(std::uint64_t number) {
    stats = {};
    const kv::OpResult result = co_await client_.get(key(number), &stats);
    is_whole = result.status == kv::OpStatus::ok && PatternData::read_value(result.value, &seen);
    co_return result;
  }
  [[nodiscard]] coro::Task<kv::OpResult> put(std::uint64_t number, std::uint64_t value) {
    stats = {};
    PatternData::write_value(value, value_.data(), config_.value_size);
    const kv::ValueView view{value_.data(), config_.value_size, config_.kept_value_bytes};
    const kv::OpResult result = co_await client_.put(key(number), view, &stats);
    co_return result;
  }
  [[nodiscard]] coro::Task<kv::OpResult> remove(std::uint64_t number) {
    stats = {};
    const kv::OpResult result = co_await client_.remove(key(number), &stats);
    co_return result;
  }

  fabric::OpStats stats;  // work requests and bytes of the latest operation
  // the number of the latest GET's value (records.h)
  std::uint64_t seen = 0;
  bool is_whole = false;  // whether all bytes of the latest GET's value belong to number `seen`

 private:
  [[nodiscard]] kv::Key key(std::uint64_t number) {
    PatternData::write_key(number, key_.data(), config_.key_size);
    return {key_.data(), config_.key_size};
  }
  kv::Client& client_;
  kv::DeployConfig config_;
  std::vector<std::byte> key_, value_;
};

// A slot of a client's window (one operation outstanding at a time) with its worker; its operations return
// all that is known about their outcome.
class Lane {
 public:
  Lane(kv::Client& client, fabric::Worker& worker, const kv::DeployConfig& config)
      : hand_(client, config), worker_(worker) {}

  struct Outcome {
    kv::OpResult result;
    fabric::OpStats stats;
    std::uint64_t value = 0;  // identifies the value that a GET found
    bool is_torn = false;     // true: a GET returned bytes of more than one value
  };
  [[nodiscard]] coro::Task<Outcome> get(std::uint64_t number) {
    const kv::OpResult result = co_await hand_.get(number);
    const bool is_ok = result.status == kv::OpStatus::ok;
    co_return Outcome{result, hand_.stats, is_ok ? hand_.seen : 0, is_ok && !hand_.is_whole};
  }
  [[nodiscard]] coro::Task<Outcome> put(std::uint64_t number, std::uint64_t value) {
    const kv::OpResult result = co_await hand_.put(number, value);
    co_return Outcome{result, hand_.stats, 0, false};
  }
  [[nodiscard]] coro::Task<Outcome> remove(std::uint64_t number) {
    const kv::OpResult result = co_await hand_.remove(number);
    co_return Outcome{result, hand_.stats, 0, false};
  }
  [[nodiscard]] fabric::Worker& worker() { return worker_; }

 private:
  Hand hand_;
  fabric::Worker& worker_;
};

}  // namespace loch::support
