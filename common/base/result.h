// Result<T> returns an operating error as a value. Its error code tells the caller how to react; its
// message is one line for the user that names the file, the key and what was expected.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace loch {

enum class ErrorCode {
  invalid_argument,  // the user's input is wrong: print the message, exit with status 2, change nothing
  unsupported,       // the device or this build lacks the feature: the message says why
  not_found,
  unavailable,  // a peer or resource cannot be reached now: retry or report
  exhausted,    // memory, table entries or places in a queue ran out
  timed_out,
  corrupt,  // data that cannot be trusted: an unreadable file, a malformed message
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
// Returns from the calling function with the error of a Result<> expression, if it is one. For plain
// functions, not for coroutines.
#define LOCH_TRY(expression)                                                 \
  do {                                                                       \
    if (auto loch_result = (expression); !loch_result) {                     \
      return std::unexpected<::loch::Error>(std::move(loch_result.error())); \
    }                                                                        \
  } while (false)
// Declares `name` with the value of a Result expression, or returns its error from the calling function.
#define LOCH_ASSIGN(name, expression)                                                         \
  auto LOCH_CONCAT(loch_r_, __LINE__) = (expression);                                         \
  if (!LOCH_CONCAT(loch_r_, __LINE__)) {                                                      \
    return std::unexpected<::loch::Error>(std::move(LOCH_CONCAT(loch_r_, __LINE__).error())); \
  }                                                                                           \
  name = std::move(*LOCH_CONCAT(loch_r_, __LINE__))
