// Reads the memory use of this process, and the machine's available memory, from /proc; measures what a copy
// of a page costs.
#include "common/base/process_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
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

double thread_cpu_s() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

// Writes to each of `pages` pages at `memory`, whose size in bytes is `page`.
void write_pages(std::byte* memory, std::size_t pages, std::size_t page) {
  for (std::size_t i = 0; i < pages; ++i) *const_cast<volatile std::byte*>(memory + i * page) = std::byte{1};
}

// Maps `bytes` bytes of memory in pages of the smallest size; null if there are none.
std::byte* map(std::size_t bytes, int kind) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  (void)::madvise(memory, bytes, MADV_NOHUGEPAGE);
  return static_cast<std::byte*>(memory);
}

double measured_page_copy_s() {
  constexpr std::size_t pages = 64;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* const copied = map(pages * page, MAP_PRIVATE);
  std::byte* const told = map(page, MAP_SHARED);
  double took = 0;
  if (copied != nullptr && told != nullptr) {
    write_pages(copied, pages, page);
    const pid_t child = ::fork();
    if (child == 0) {
      const double before = thread_cpu_s();
      write_pages(copied, pages, page);
      *reinterpret_cast<double*>(told) = thread_cpu_s() - before;
      ::_exit(0);
    }
    while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    took = *reinterpret_cast<double*>(told) / pages;
  }
  if (copied != nullptr) ::munmap(copied, pages * page);
  if (told != nullptr) ::munmap(told, page);
  return took;
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

double page_copy_s() {
  static const double measured = measured_page_copy_s();
  return measured;
}

}  // namespace loch
