// Tests of what asynchronous events mean for a run.
#include "common/fabric/verbs/events.h"

#include <gtest/gtest.h>

namespace loch::fabric::verbs {
namespace {

TEST(Events, TheirNamesAreThoseOfTheLibrary) {
  EXPECT_EQ(event_name(IBV_EVENT_PORT_ERR), "IBV_EVENT_PORT_ERR");
  EXPECT_EQ(event_name(IBV_EVENT_GID_CHANGE), "IBV_EVENT_GID_CHANGE");
  EXPECT_EQ(event_name(IBV_EVENT_SRQ_LIMIT_REACHED), "IBV_EVENT_SRQ_LIMIT_REACHED");
  EXPECT_EQ(event_name(static_cast<ibv_event_type>(31)), "an unknown event");
}

TEST(Events, OnlyThoseAfterWhichNothingWorksEndARun) {
  int fatal = 0, harmless = 0;
  for (int type = 0; type <= IBV_EVENT_WQ_FATAL; ++type) {
    const EventEffect effect = effect_of(static_cast<ibv_event_type>(type));
    fatal += effect == EventEffect::fatal ? 1 : 0;
    harmless += effect == EventEffect::none ? 1 : 0;
  }
  EXPECT_EQ(fatal, 4);
  EXPECT_EQ(harmless, 11);
  EXPECT_EQ(effect_of(IBV_EVENT_DEVICE_FATAL), EventEffect::fatal);
  EXPECT_EQ(effect_of(IBV_EVENT_PORT_ERR), EventEffect::port_down);
  EXPECT_EQ(effect_of(IBV_EVENT_PATH_MIG_ERR), EventEffect::symptom);
  EXPECT_EQ(effect_of(IBV_EVENT_PATH_MIG), EventEffect::none);
  EXPECT_EQ(effect_of(static_cast<ibv_event_type>(31)), EventEffect::none);
}

}  // namespace
}  // namespace loch::fabric::verbs
