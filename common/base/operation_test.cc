// Tests the outcome in a history for every kind, status and effect of an operation.
#include "common/base/operation.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace loch {
namespace {

TEST(Operation, ACompletedOperationIsWhatItsClientWasTold) {
  for (const OpKind kind : client_kinds) {
    for (const Effect effect : {Effect::none, Effect::unknown}) {
      EXPECT_EQ(outcome_of(kind, OpStatus::ok, effect), Outcome::ok);
    }
  }
  EXPECT_EQ(outcome_of(OpKind::get, OpStatus::not_found, Effect::none), Outcome::not_found);
  EXPECT_EQ(outcome_of(OpKind::remove, OpStatus::not_found, Effect::none), Outcome::not_found);
  EXPECT_EQ(outcome_of(OpKind::put, OpStatus::not_found, Effect::none), Outcome::failed);
}

TEST(Operation, AnUnfinishedWriteIsUnknownUnlessItSurelyHadNoEffect) {
  for (const OpStatus status :
       {OpStatus::conflict, OpStatus::timeout, OpStatus::table_full, OpStatus::error}) {
    EXPECT_FALSE(is_completed(status));
    EXPECT_EQ(outcome_of(OpKind::get, status, Effect::unknown), Outcome::failed) << name(status);
    for (const OpKind kind : {OpKind::put, OpKind::remove}) {
      EXPECT_EQ(outcome_of(kind, status, Effect::none), Outcome::failed) << name(status);
      EXPECT_EQ(outcome_of(kind, status, Effect::unknown), Outcome::unknown) << name(status);
    }
  }
}

TEST(Operation, EveryNameIsItsOwn) {
  std::set<std::string_view> kinds, statuses;
  for (std::size_t i = 0; i <= op_kinds; ++i) {
    kinds.insert(name(static_cast<OpKind>(i)));
    kinds.insert(capital_name(static_cast<OpKind>(i)));
  }
  for (std::size_t i = 0; i < op_statuses; ++i) statuses.insert(name(static_cast<OpStatus>(i)));
  EXPECT_EQ(kinds.size(), 2 * (op_kinds + 1));
  EXPECT_EQ(statuses.size(), op_statuses);
  EXPECT_FALSE(kinds.contains("?") || statuses.contains("?"));
}

}  // namespace
}  // namespace loch
