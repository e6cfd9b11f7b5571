// A probe is a named mark at a rare branch: LOCH_PROBE("nessie.rollback-unknown"). A fuzzer or an
// explorer that runs a scenario under a ProbeScope learns which probes were passed; a campaign that never
// passed a probe has not tested the code behind it.
//
// Names are "MODULE.branch"; several places may share a name. Code that only the published variant of a
// design runs names its probes "MODULE.published.branch". Outside a ProbeScope a probe costs one read of
// a thread-local pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace loch {

struct ProbeSite {
  const char* name;
};

// All probes (LOCH_PROBE marks in the code) of this program, which the linker stores contiguously in one
// section.
[[nodiscard]] std::span<const ProbeSite> probe_sites();

// How often a thread passed each probe (LOCH_PROBE mark in the code), in the order of probe_sites().
using ProbeCounts = std::vector<std::uint32_t>;

namespace detail {
extern constinit thread_local ProbeCounts* probe_counts;
void count_probe(const ProbeSite* site);
}  // namespace detail

// Counts the probes (LOCH_PROBE marks) that this thread passes while the ProbeScope lives, on top of the
// values already in `counts`. `counts` must outlive the scope. Of nested scopes only the innermost one
// counts.
class ProbeScope {
 public:
  explicit ProbeScope(ProbeCounts& counts) : outer_(detail::probe_counts) {
    counts.resize(probe_sites().size());
    detail::probe_counts = &counts;
  }
  ~ProbeScope() { detail::probe_counts = outer_; }
  ProbeScope(const ProbeScope&) = delete;
  ProbeScope& operator=(const ProbeScope&) = delete;

 private:
  ProbeCounts* outer_;
};

}  // namespace loch

// LOCH_PROBE marks a place in the code, so that passing it is counted. The section's name is a valid
// identifier: only then does the linker define symbols for the section's start and end, and only then do
// sanitizers insert no padding between its elements.
#define LOCH_PROBE(name)                                                                           \
  do {                                                                                             \
    [[gnu::section("loch_probes"), gnu::used]] static constinit ::loch::ProbeSite loch_site{name}; \
    if (::loch::detail::probe_counts != nullptr) [[unlikely]]                                      \
      ::loch::detail::count_probe(&loch_site);                                                     \
  } while (false)
