// Result<T>: an operating error as a value. The code is chosen by what the caller should do
// next; the message is one line for a person and names file, key and what was expected.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace loch {

enum class ErrorCode {
  invalid_argument,  // the input is wrong: say so, exit 2, change nothing
  unsupported,       // the device or build cannot do it: say why
  not_found,
  unavailable,  // a peer or resource is gone for now: retry or report
  exhausted,    // memory, entries or a queue ran out
  timed_out,
  corrupt,  // bytes that cannot be trusted: an unreadable file, a bad message
  internal,
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

template <typename T = void>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace loch

#define LOCH_CONCAT_INNER(a, b) a##b
#define LOCH_CONCAT(a, b) LOCH_CONCAT_INNER(a, b)
// Passes the error of a Result<> expression on to the caller (plain functions, not coroutines).
#define LOCH_TRY(expression)                                                 \
  do {                                                                       \
    if (auto loch_result = (expression); !loch_result) {                     \
      return std::unexpected<::loch::Error>(std::move(loch_result.error())); \
    }                                                                        \
  } while (false)
// Declares `name` with the value, or passes the error on.
#define LOCH_ASSIGN(name, expression)                                                         \
  auto LOCH_CONCAT(loch_r_, __LINE__) = (expression);                                         \
  if (!LOCH_CONCAT(loch_r_, __LINE__)) {                                                      \
    return std::unexpected<::loch::Error>(std::move(LOCH_CONCAT(loch_r_, __LINE__).error())); \
  }                                                                                           \
  name = std::move(*LOCH_CONCAT(loch_r_, __LINE__))
