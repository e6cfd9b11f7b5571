// Tests the agreement on a key: both sides open what the other has sealed, and nobody else does.
#include "common/cluster/key_agreement.h"

#include <gtest/gtest.h>

namespace loch::cluster {
namespace {

TEST(KeyAgreement, TheOtherSideOpensWhatWasSealed) {
  const auto a = KeyAgreement::draw(), b = KeyAgreement::draw();
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->public_key().size(), KeyAgreement::public_bytes);
  EXPECT_NE(a->public_key(), b->public_key());
  const std::string plain = "a secret of thirty-two bytes ...";
  const auto sealed = a->seal(b->public_key(), plain);
  ASSERT_TRUE(sealed);
  EXPECT_EQ(sealed->find(plain), std::string::npos);
  const auto opened = b->open(a->public_key(), *sealed);
  ASSERT_TRUE(opened);
  EXPECT_EQ(*opened, plain);
}

TEST(KeyAgreement, NobodyElseOpensAndNothingCanBeChanged) {
  const auto a = KeyAgreement::draw(), b = KeyAgreement::draw(), other = KeyAgreement::draw();
  ASSERT_TRUE(a && b && other);
  const auto sealed = a->seal(b->public_key(), "secret");
  ASSERT_TRUE(sealed);
  EXPECT_FALSE(other->open(a->public_key(), *sealed));
  EXPECT_FALSE(b->open(other->public_key(), *sealed));
  EXPECT_FALSE(a->open(b->public_key(), *sealed)) << "the sealer's own side of the pair";
  for (std::size_t at = 0; at < sealed->size(); ++at) {
    std::string changed = *sealed;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(b->open(a->public_key(), changed)) << at;
  }
  EXPECT_FALSE(b->open(a->public_key(), sealed->substr(0, 10)));
}

TEST(KeyAgreement, RefusesKeysThatAreNone) {
  const auto a = KeyAgreement::draw();
  ASSERT_TRUE(a);
  EXPECT_FALSE(a->seal("short", "secret"));
  EXPECT_FALSE(a->seal(std::string(KeyAgreement::public_bytes, '\0'), "secret")) << "the point is zero";
}

}  // namespace
}  // namespace loch::cluster
