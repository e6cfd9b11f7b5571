// The table of probes, whose ends the linker names, and the counters of the thread's scope.
#include "common/base/probe.h"

extern "C" {
// Weak: a program without a single probe has no such section.
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
