// The error with which a command refuses bad input.
#pragma once

#include <string>
#include <utility>

#include "common/base/result.h"

namespace loch::cli {

// An error with a message of one line, which the command prints before it ends with exit status 2.
[[nodiscard]] inline std::unexpected<Error> refuse(std::string message) {
  return fail(ErrorCode::invalid_argument, std::move(message));
}

}  // namespace loch::cli
