// Tests that passing a probe (LOCH_PROBE mark in the code) is counted only while a ProbeScope lives.
#include "common/base/probe.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace loch {
namespace {

void pass(int which) {
  if (which == 1) LOCH_PROBE("test.one");
  if (which == 2) LOCH_PROBE("test.two");
  if (which == 3) LOCH_PROBE("test.one");
}

template <typename T>
void pass_in_template(T) {
  LOCH_PROBE("test.template");
}

std::map<std::string, std::uint32_t> by_name(const ProbeCounts& counts) {
  std::map<std::string, std::uint32_t> out;
  for (std::size_t i = 0; i < counts.size(); ++i) out[probe_sites()[i].name] += counts[i];
  return out;
}

TEST(Probe, CountsInsideItsScopeAlone) {
  ProbeCounts counts;
  pass(1);
  {
    const ProbeScope scope(counts);
    pass(1);
    pass(3);
    pass_in_template(1);
    pass_in_template(1.0);
    ProbeCounts inner;
    {
      const ProbeScope nested(inner);
      pass(2);
    }
    EXPECT_EQ(by_name(inner)["test.two"], 1u);
  }
  pass(2);
  auto seen = by_name(counts);
  EXPECT_EQ(seen["test.one"], 2u);
  EXPECT_EQ(seen["test.template"], 2u);
  EXPECT_EQ(seen["test.two"], 0u);
  EXPECT_EQ(seen.size(), 3u);  // by_name() lists every probe's name, passed or not
}

}  // namespace
}  // namespace loch
