// LOCH_CHECK: an assertion that is compiled into every build. It is for conditions that only a
// programming error can violate; errors of operation (bad input, a failed connection) are a Result
// (result.h) instead.
#pragma once

#include <fmt/format.h>

#include <string>

namespace loch {

// Prints the failed expression with file, line and detail, then aborts the process. Any thread may call
// it.
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& detail);

namespace detail {
template <typename T>
std::string printable(const T& value) {
  if constexpr (fmt::is_formattable<T>::value) {
    return fmt::format("{}", value);
  } else if constexpr (std::is_enum_v<T>) {
    return fmt::format("{}", static_cast<long long>(value));
  } else {
    return "?";
  }
}
}  // namespace detail

}  // namespace loch

#define LOCH_CHECK(condition, ...)                                                                      \
  do {                                                                                                  \
    if (!(condition)) [[unlikely]] {                                                                    \
      ::loch::check_failed(__FILE__, __LINE__, #condition, "" __VA_OPT__(+::fmt::format(__VA_ARGS__))); \
    }                                                                                                   \
  } while (false)

// LOCH_CHECK_EQ, LOCH_CHECK_LT and the other comparisons print both values when they fail.
#define LOCH_CHECK_OP(a, op, b)                                                                 \
  do {                                                                                          \
    const auto& loch_a = (a);                                                                   \
    const auto& loch_b = (b);                                                                   \
    if (!(loch_a op loch_b)) [[unlikely]] {                                                     \
      ::loch::check_failed(                                                                     \
          __FILE__, __LINE__, #a " " #op " " #b,                                                \
          ::loch::detail::printable(loch_a) + " against " + ::loch::detail::printable(loch_b)); \
    }                                                                                           \
  } while (false)
#define LOCH_CHECK_EQ(a, b) LOCH_CHECK_OP(a, ==, b)
#define LOCH_CHECK_NE(a, b) LOCH_CHECK_OP(a, !=, b)
#define LOCH_CHECK_LT(a, b) LOCH_CHECK_OP(a, <, b)
#define LOCH_CHECK_LE(a, b) LOCH_CHECK_OP(a, <=, b)
#define LOCH_CHECK_GT(a, b) LOCH_CHECK_OP(a, >, b)
#define LOCH_CHECK_GE(a, b) LOCH_CHECK_OP(a, >=, b)
