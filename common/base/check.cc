// Prints the expression and the details of a failed LOCH_CHECK, and aborts.
#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace loch {

void check_failed(const char* file, int line, const char* expression, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, expression, detail.empty() ? "" : ": ",
               detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace loch
