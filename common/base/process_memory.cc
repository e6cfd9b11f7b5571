// Reads the memory use of this process, and the machine's available memory, from /proc.
#include "common/base/process_memory.h"

#include <sys/resource.h>

#include <charconv>
#include <string>
#include <string_view>

#include "common/base/file.h"

namespace loch {
namespace {

// Returns, in bytes, the number of kB that `text`, the content of a /proc file, gives behind `label`; 0
// without such a label.
std::uint64_t kilobytes(const std::string& text, std::string_view label) {
  const auto at = text.find(label);
  if (at == std::string::npos) return 0;
  const auto digits = text.find_first_of("0123456789", at + label.size());
  if (digits == std::string::npos) return 0;
  std::uint64_t value = 0;
  std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return value * 1024;
}

}  // namespace

std::uint64_t peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::uint64_t available_memory_bytes() {
  const auto text = read_whole("/proc/meminfo");
  return text ? kilobytes(*text, "MemAvailable:") : 0;
}

}  // namespace loch
