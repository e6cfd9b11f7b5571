// Work in parts that several threads share.
#pragma once

#include <cstddef>
#include <functional>

#include "common/base/result.h"

namespace loch {

// The number of processors that the process may use; at least 1.
[[nodiscard]] std::size_t usable_cores();

// Calls work(i) for each i below `parts`, in this order of beginning, on up to `threads` threads, of which
// the caller's is one: with one thread, or one part, no other is started. Once a part has failed, no further
// one begins. Returns the error of the lowest part that failed; which one that is does not depend on how the
// threads take turns.
[[nodiscard]] Result<> in_parallel(std::size_t parts, std::size_t threads,
                                   const std::function<Result<>(std::size_t part)>& work);

}  // namespace loch
