// Divides set-up work among the CPUs that this thread may use.
#pragma once

#include <cstdint>
#include <functional>

namespace loch {

// Calls work(from, to) for ranges that together are [0, count), each on a thread of its own, and returns when
// all have ended. There are as many ranges as CPUs, but none is smaller than `least` unless it is the only
// one, which the calling thread works on itself. `work` must not throw, and calls must not write the same
// memory.
void in_parallel(std::uint64_t count, std::uint64_t least,
                 const std::function<void(std::uint64_t from, std::uint64_t to)>& work);

}  // namespace loch
