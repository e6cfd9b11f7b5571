// The error counters of an emulated device, in files that look like the kernel's.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <mutex>
#include <string>

#include "common/fabric/verbs/zoo/model.h"

namespace loch::fabric::verbs::zoo {

class Counters {
 public:
  enum class Kind : std::uint8_t { resent, timed_out, not_ready };
  static constexpr std::size_t kinds = 3;

  Counters() = default;
  ~Counters();
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // Makes FOLDER/DEVICE as the kernel makes /sys/class/infiniband/DEVICE: ports/1/counters,
  // ports/1/hw_counters with the names of the device's driver, device/numa_node, device/driver. Counters of
  // the transport begin at `first` and wrap at 2^32, as those of mlx5. The error is one line.
  [[nodiscard]] std::expected<void, std::string> open(const std::string& folder, const DeviceModel& model,
                                                      std::uint32_t first);
  // Adds one to the counter of this kind, and writes the new value to its file. Any thread may call it.
  void add(Kind kind);

 private:
  struct One {
    std::uint32_t value = 0;
    int file = -1;  // descriptor of the counter's file; -1: counters are not written to files
  };
  std::mutex mutex_;
  std::array<One, kinds> all_;
};

}  // namespace loch::fabric::verbs::zoo
