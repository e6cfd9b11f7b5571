// Finds all probes (LOCH_PROBE marks at rare branches) of the program by the linker's symbols for the start
// and end of their section, and counts how often a thread passes each.
#include "common/base/probe.h"

extern "C" {
// These symbols are weak, because a program without any LOCH_PROBE has no section "loch_probes".
extern const loch::ProbeSite __start_loch_probes[]
    __attribute__((weak));  // NOLINT(bugprone-reserved-identifier)
extern const loch::ProbeSite __stop_loch_probes[]
    __attribute__((weak));  // NOLINT(bugprone-reserved-identifier)
}

namespace loch {

std::span<const ProbeSite> probe_sites() {
  return {__start_loch_probes, static_cast<std::size_t>(__stop_loch_probes - __start_loch_probes)};
}

namespace detail {
constinit thread_local ProbeCounts* probe_counts = nullptr;

void count_probe(const ProbeSite* site) {
  ++(*probe_counts)[static_cast<std::size_t>(site - probe_sites().data())];
}
}  // namespace detail

}  // namespace loch
