// LOCH_CO_TRY ends a coroutine with the first step (awaited call) that does not end well, as LOCH_TRY
// (common/base/result.h) ends a plain function.
#pragma once

#include <concepts>

namespace loch::coro {

// Whether a step (awaited call) ended well: a bool if it is true, a value of an enum if it is the enum's
// `ok`.
template <typename T>
[[nodiscard]] constexpr bool is_ok(const T& ended) {
  if constexpr (std::same_as<T, bool>)
    return ended;
  else
    return ended == T::ok;
}

}  // namespace loch::coro

// Awaits a step (a call), and returns `otherwise` from the awaiting coroutine if the step did not end well.
#define LOCH_CO_TRY_OR(otherwise, step)                          \
  do {                                                           \
    const auto loch_ended = co_await (step);                     \
    if (!::loch::coro::is_ok(loch_ended)) co_return (otherwise); \
  } while (false)
// Awaits a step (a call), and returns its result from the awaiting coroutine if that is not `ok`.
#define LOCH_CO_TRY(step) LOCH_CO_TRY_OR(loch_ended, step)
