// Tests for how long a connection is asked for: longer than the other process may stay unheard while it
// lives.
#include "common/fabric/verbs/connector.h"

#include <gtest/gtest.h>

#include "common/cluster/channel_control.h"
#include "common/cluster/memory_channel.h"

namespace loch::fabric::verbs {
namespace {

constexpr Nanos one_second = 1'000'000'000;

TEST(Connector, AsksForAConnectionLongerThanALivingProcessMayStayUnheard) {
  for (const Nanos silence : {one_second, 5 * one_second, 20 * one_second}) {
    cluster::MemoryNetwork network(1);
    cluster::ChannelControl control(network.channel(0), 0, {"here"}, 0, silence);
    Shared shared;
    shared.control = &control;
    EXPECT_GE(Connector(&shared, nullptr).patience(), silence + 5 * one_second) << silence;
  }
}

}  // namespace
}  // namespace loch::fabric::verbs
