// A probe is a named mark at a rare branch: LOCH_PROBE("nessie.rollback-unknown"). A fuzzer or an explorer
// that runs a scenario under a ProbeScope learns which marks were passed, and a campaign that never passed
// one says nothing about the code behind it.
//
// Names are "MODULE.branch"; several places may share one. Code that only the published variant of a design
// runs names its probes "MODULE.published.branch". Outside a ProbeScope a mark costs the look at one
// thread-local pointer, and it belongs at branches that are rare.
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

// Every probe of this program: the linker puts the sites beside one another.
[[nodiscard]] std::span<const ProbeSite> probe_sites();

// How often each site was passed, by its place in probe_sites().
using ProbeCounts = std::vector<std::uint32_t>;

namespace detail {
extern constinit thread_local ProbeCounts* probe_counts;
void count_probe(const ProbeSite* site);
}  // namespace detail

// Counts what this thread passes while it lives. `counts` outlives it and keeps what it holds already;
// scopes nest, the inner one counts.
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

// The section's name is an identifier, so that the linker names its ends and sanitizers leave it dense.
#define LOCH_PROBE(name)                                                                           \
  do {                                                                                             \
    [[gnu::section("loch_probes"), gnu::used]] static constinit ::loch::ProbeSite loch_site{name}; \
    if (::loch::detail::probe_counts != nullptr) [[unlikely]]                                      \
      ::loch::detail::count_probe(&loch_site);                                                     \
  } while (false)
