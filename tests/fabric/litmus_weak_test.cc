// Litmus tests on shared memory (fabric shm) with injected faults: for each weak outcome that a rule of
// fabric.h allows, a fault shows it; litmus_sim_test.cc does this on the simulator. Forbidden outcomes must
// not appear under faults either.
#include <set>

#include "common/fabric/fault/fault.h"
#include "common/fabric/shm/shm.h"
#include "tests/fabric/litmus.h"

namespace loch::fabric {
namespace {

Backend faulty_shm(const FaultConfig& faults) {
  return {"shm_faulty", [faults](std::uint32_t nodes, std::uint64_t seed) -> Result<std::unique_ptr<Fabric>> {
            shm::ShmConfig config;
            config.nodes = nodes;
            config.seed = seed;
            LOCH_ASSIGN(auto inner, shm::make_shm(config));
            return inject_faults(std::move(inner), faults);
          }};
}

TEST(FaultLitmus, UcLosesMessagesAndItsSenderHearsNothing) {
  const LossCounts counts = number_messages(faulty_shm({.uc_loss = 0.2}), Transport::uc, 200);
  EXPECT_EQ(counts.sent, 200u);
  EXPECT_LT(counts.received, 190u);
  EXPECT_GT(counts.received, 100u);
  EXPECT_EQ(counts.damaged + counts.duplicates + counts.out_of_order, 0u);
}

TEST(FaultLitmus, UdLosesAndReorders) {
  const LossCounts lost = number_messages(faulty_shm({.ud_loss = 0.2}), Transport::ud, 200);
  EXPECT_LT(lost.received, 190u);
  const LossCounts mixed = number_messages(faulty_shm({.ud_reorder = 0.2}), Transport::ud, 200);
  EXPECT_EQ(mixed.received, 200u);
  EXPECT_GT(mixed.out_of_order, 0u);
  EXPECT_EQ(mixed.damaged + mixed.duplicates, 0u);
}

TEST(FaultLitmus, ALostUcWriteMayHaveBeenPlacedInPart) {
  const PlacementCounts counts = place_unreliable(faulty_shm({.uc_loss = 0.5, .uc_partial_write = 0.5}), 200);
  EXPECT_GT(counts.whole, 0u);
  EXPECT_GT(counts.nothing, 0u);
  EXPECT_GT(counts.partial, 0u);
}

TEST(FaultLitmus, AFailedReliableRequestMayHaveExecuted) {
  const FailureCounts counts = fail_reliable(faulty_shm({.rc_error = 0.3}), 300);
  EXPECT_GT(counts.succeeded, 0u);
  EXPECT_GT(counts.failed_executed, 0u);
  EXPECT_GT(counts.failed_not_executed, 0u);
  EXPECT_EQ(counts.flushed_executed, 0u);
}

TEST(FaultLitmus, ReliableMessagesAreNeverLostByLossOfOthers) {
  const FaultConfig faults{.uc_loss = 1, .ud_loss = 1};
  EXPECT_EQ(receive_before_data(faulty_shm(faults), 100), 0u);
}

TEST(FaultLitmus, TheSameSeedLosesTheSame) {
  const auto once = [](std::uint64_t seed) {
    return number_messages(faulty_shm({.seed = seed, .uc_loss = 0.2}), Transport::uc, 200).received;
  };
  EXPECT_EQ(once(1), once(1));
  std::set<std::uint64_t> several;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) several.insert(once(seed));
  EXPECT_GT(several.size(), 1u);
}

TEST(FaultLitmus, RatesAreChecked) {
  for (const FaultConfig& bad :
       {FaultConfig{.uc_loss = 1.5}, FaultConfig{.rc_error = -0.1}, FaultConfig{.delay_ns_max = 0}}) {
    const auto made = faulty_shm(bad).make(1, 1);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace loch::fabric
