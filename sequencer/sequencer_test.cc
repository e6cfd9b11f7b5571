// Tests the sequencers on the simulator and on shared memory: no number is given twice.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "sequencer/guess.h"
#include "sequencer/module.h"
#include "tests/support/store_run.h"

namespace loch::sequencer {
namespace {

using support::run_store, support::StoreRun, support::total;

kv::Registry sequencers() {
  std::vector<std::unique_ptr<kv::Module>> all;
  add_modules(all);
  kv::Registry registry;
  for (auto& module : all) {
    std::string name(module->name());
    registry.emplace(std::move(name), std::move(module));
  }
  return registry;
}

// A cluster of one serving node and two nodes that drive load, so that every request crosses the network.
StoreRun shape(const std::string& fabric, const kv::Module& module) {
  StoreRun run;
  run.fabric = fabric;
  run.deploy = {.nodes = 3,
                .client_workers = 2,
                .server_workers = module.default_servers(),
                .window = 8,
                .key_size = 16,
                .value_size = 32,
                .keys = 10};
  run.deploy.server_nodes = 1;
  run.operations = 5'000;
  return run;
}

class Each : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  [[nodiscard]] const kv::Module& module() const { return *registry_.at(std::get<1>(GetParam())); }
  [[nodiscard]] std::string fabric() const { return std::get<0>(GetParam()); }
  [[nodiscard]] bool is(const std::string& protocol) const { return std::get<1>(GetParam()) == protocol; }

  kv::Registry registry_ = sequencers();
};
constexpr auto protocols = {"seq-rpc", "seq-spec", "seq-atomic"};
INSTANTIATE_TEST_SUITE_P(Sequencers, Each,
                         ::testing::Combine(::testing::Values("sim", "shm"), ::testing::ValuesIn(protocols)));

TEST_P(Each, GivesEveryNumberOnce) {
  StoreRun run = shape(fabric(), module());
  const auto outcome = run_store(module(), run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(total(outcome).completed(), 5'000u);
  EXPECT_EQ(outcome.protocol_counters.at("numbers"), 5'000);
  EXPECT_EQ(outcome.protocol_counters.at("numbers_twice"), 0);
  EXPECT_EQ(outcome.protocol_counters.at("numbers_far"), 0);
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

TEST_P(Each, ServesItsOwnNodeToo) {
  StoreRun run = shape(fabric(), module());
  run.deploy.server_nodes = 0;
  const auto outcome = run_store(module(), run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(outcome.protocol_counters.at("numbers"), 5'000);
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

TEST_P(Each, LosesNothingAndHangsNever) {
  StoreRun run = shape(fabric(), module());
  run.loss = 0.01;
  run.reorder = 0.1;
  run.rc_error = is("seq-atomic") ? 0.003 : 0;
  // In real time a thread may be preempted for longer than the default time-out of an operation.
  if (is("seq-atomic")) run.options = {{"seq-atomic.patience", "10s"}};
  const auto outcome = run_store(module(), run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(outcome.outstanding, 0u);
  EXPECT_EQ(total(outcome).completed(), 5'000u);
  EXPECT_GT(outcome.protocol_counters.at("retries"), 0);
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

// Drawing a number is one FETCH_AND_ADD of 8 bytes.
TEST(SeqAtomic, RequestsAndBytesAreTheDerivedOnes) {
  const kv::Registry registry = sequencers();
  const kv::Module& module = *registry.at("seq-atomic");
  for (const char* fabric : {"sim", "shm"}) {
    const measure::Tally sum = total(run_store(module, shape(fabric, module)));
    for (const OpKind kind : {OpKind::get, OpKind::put}) {
      const measure::KindTally& all = sum.of(kind);
      EXPECT_GT(all.total(), 2'000u);
      EXPECT_EQ(all.requests.faa, all.total());
      EXPECT_EQ(all.requests.payload_bytes, 8 * all.total());
      EXPECT_EQ(all.requests.read + all.requests.write + all.requests.cas + all.requests.send, 0u);
    }
  }
}

// Drawing a number is a WRITE of 8 bytes and a SEND of 8 bytes back.
TEST(SeqRpc, RequestsAndBytesAreTheDerivedOnes) {
  const kv::Registry registry = sequencers();
  const kv::Module& module = *registry.at("seq-rpc");
  for (const char* fabric : {"sim", "shm"}) {
    for (const char* ids : {"true", "false"}) {
      StoreRun run = shape(fabric, module);
      run.get = 1;
      // Without request numbers in replies, replies of two server workers may be reordered unnoticed.
      run.deploy.server_workers = 1;
      // Without request numbers even one worker's replies may be reordered, if its scan passes a slot just
      // before the slot is written: the reply to a later request is then taken for the earlier one's, and the
      // next request overwrites one that the server never saw. A window of 1 excludes this.
      if (ids == std::string("false")) run.deploy.window = 1;
      run.options = {{"seq-rpc.retry-after", "10s"}, {"seq-rpc.request-ids", ids}, {"seq-rpc.lanes", "1"}};
      const measure::Tally sum = total(run_store(module, run));
      const measure::KindTally& all = sum.of(OpKind::get);
      EXPECT_EQ(all.total(), 5'000u);
      EXPECT_EQ(all.completed(), 5'000u);
      EXPECT_EQ(all.requests.write, all.total());
      EXPECT_EQ(all.requests.send, all.total());
      EXPECT_EQ(all.requests.payload_bytes, 16 * all.total());
      EXPECT_EQ(all.requests.read + all.requests.cas + all.requests.faa, 0u);
    }
  }
}

// Drawing a number is two SENDs without payload; if the client's guess of the number's high bits is wrong,
// the reply has 8 bytes.
TEST(SeqSpec, RequestsAndBytesAreTheDerivedOnes) {
  const kv::Registry registry = sequencers();
  const kv::Module& module = *registry.at("seq-spec");
  for (const char* fabric : {"sim", "shm"}) {
    StoreRun run = shape(fabric, module);
    run.get = 1;
    const auto outcome = run_store(module, run);
    const measure::Tally sum = total(outcome);
    const measure::KindTally& all = sum.of(OpKind::get);
    EXPECT_EQ(all.total(), 5'000u);
    // In real time the first requests may arrive before the server has posted receive buffers; lost requests
    // are sent again.
    const auto retries = static_cast<std::uint64_t>(outcome.protocol_counters.at("retries"));
    if (fabric == std::string("sim")) EXPECT_EQ(retries, 0u);
    EXPECT_EQ(all.requests.send, 2 * all.total() + retries);
    EXPECT_EQ(all.requests.payload_bytes, 0u);
    EXPECT_EQ(all.requests.write + all.requests.read + all.requests.cas + all.requests.faa, 0u);
  }
}

// With a first number just below 2^32, each client worker's guess of the high 32 bits is corrected once.
TEST(SeqSpec, TheGuessIsCorrectedOnceAClient) {
  const kv::Registry registry = sequencers();
  const kv::Module& module = *registry.at("seq-spec");
  for (const char* fabric : {"sim", "shm"}) {
    StoreRun run = shape(fabric, module);
    run.options = {{"seq-spec.first", "4294965000"}};
    const auto outcome = run_store(module, run);
    EXPECT_EQ(outcome.protocol_counters.at("numbers"), 5'000);
    EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
    const std::uint64_t bytes = total(outcome).of(OpKind::get).requests.payload_bytes +
                                total(outcome).of(OpKind::put).requests.payload_bytes;
    // Each of the four client workers gets at least one reply with all 8 bytes of a number; further requests
    // that are outstanding at that time get such replies too.
    EXPECT_GE(bytes, 4 * 8u);
    // On a busy machine requests may be sent again; such a request may have two replies.
    const auto retries = static_cast<std::uint64_t>(outcome.protocol_counters.at("retries"));
    EXPECT_LE(bytes, 8 * (4 * 8 + retries));
  }
}

TEST(SeqSpec, LowBitsOfALateReplyBelongToTheFormerGuess) {
  Guess guess(8, 1'000, true);
  EXPECT_EQ(guess.send(), 0u);
  EXPECT_EQ(guess.send(), 0u);
  EXPECT_EQ(guess.send(), 0u);
  EXPECT_EQ(guess.short_reply(0xFE, 10), 0x0FEu);
  guess.whole_reply(0x100, 20);  // the reply with number 0x100 overtakes the one with 0xFF
  EXPECT_EQ(guess.send(), 1u);
  EXPECT_EQ(guess.short_reply(0xFF, 30), 0x0FFu);
  EXPECT_EQ(guess.short_reply(0x01, 40), 0x101u);
  EXPECT_EQ(guess.send(), 1u);
  // every request with the previous guess of the high bits was answered
  EXPECT_EQ(guess.short_reply(0xFF, 50), 0x1FFu);
  EXPECT_EQ(guess.corrections(), 1u);
}

TEST(SeqSpec, WithoutTheFixItIsReadAsTheNewest) {
  Guess guess(8, 1'000, false);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(guess.send(), 0u);
  EXPECT_EQ(guess.short_reply(0xFE, 10), 0x0FEu);
  guess.whole_reply(0x100, 20);
  // wrong: the number was 0x0FF; 0x1FF will be given out later
  EXPECT_EQ(guess.short_reply(0xFF, 30), 0x1FFu);
}

TEST(SeqSpec, LostRequestsAreForgottenInTime) {
  Guess guess(8, 1'000, true);
  EXPECT_EQ(guess.send(), 0u);
  EXPECT_EQ(guess.send(), 0u);  // this request is never answered
  guess.whole_reply(0x105, 20);
  EXPECT_EQ(guess.send(), 1u);
  EXPECT_EQ(guess.short_reply(0xC0, 500), 0x0C0u);
  EXPECT_EQ(guess.send(), 1u);
  EXPECT_EQ(guess.short_reply(0xC0, 2'000), 0x1C0u);
}

// Known fault R1 (docs/protocols/seq-spec.md): replies overtake each other while the client's guess of a
// number's high bits changes. With the fix no number is given twice; as published, some are.
TEST(SeqSpec, LateRepliesAreJoinedToTheirOwnGuess) {
  const kv::Registry registry = sequencers();
  const kv::Module& module = *registry.at("seq-spec");
  for (const bool is_fixed : {true, false}) {
    double violations = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      StoreRun run = shape("sim", module);
      run.seed = seed;
      run.reorder = 0.3;
      run.operations = 3'000;
      run.options = {{"seq-spec.first", "4294966296"}, {"seq-spec.mend-r1", is_fixed ? "true" : "false"}};
      violations += run_store(module, run).protocol_counters.at("violations");
    }
    if (is_fixed)
      EXPECT_EQ(violations, 0);
    else
      EXPECT_GT(violations, 0);
  }
}

// Known fault S1 (docs/protocols/seq-rpc.md): replies do not name their request, so that a late reply gives
// the next request a number from before it began.
TEST(SeqRpc, AReplyIsForTheRequestThatItNames) {
  const kv::Registry registry = sequencers();
  const kv::Module& module = *registry.at("seq-rpc");
  for (const bool has_ids : {true, false}) {
    StoreRun run = shape("sim", module);
    run.loss = 0.01;
    run.reorder = 0.1;
    run.options["seq-rpc.request-ids"] = has_ids ? "true" : "false";
    const auto outcome = run_store(module, run);
    EXPECT_EQ(outcome.protocol_counters.at("numbers_twice"), 0);
    if (has_ids)
      EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
    else
      EXPECT_GT(outcome.protocol_counters.at("violations"), 0);
  }
}

// A server worker claims numbers for many requests by one fetch-and-add, and posts the replies with one
// doorbell.
TEST(SeqRpc, BatchesSaveDoorbells) {
  const kv::Registry registry = sequencers();
  for (const std::string protocol : {"seq-rpc", "seq-spec"}) {
    const kv::Module& module = *registry.at(protocol);
    StoreRun run = shape("sim", module);
    run.deploy.window = 32;
    run.operations = 20'000;
    const auto batched = run_store(module, run).protocol_counters;
    EXPECT_GT(batched.at("server_requests") / batched.at("server_batches"), 1.2) << protocol;
    EXPECT_EQ(batched.at("violations"), 0);
    run.options[protocol + ".batch"] = "1";
    const auto single = run_store(module, run).protocol_counters;
    EXPECT_EQ(single.at("server_requests"), single.at("server_batches"));
    EXPECT_EQ(single.at("replies"), single.at("reply_lists"));
    EXPECT_EQ(single.at("violations"), 0);
  }
}

// Without response batching each reply has its own doorbell, but numbers are still claimed for a batch.
TEST(SeqSpec, RepliesOneByOneAreStillClaimedTogether) {
  const kv::Registry registry = sequencers();
  for (const std::string protocol : {"seq-rpc", "seq-spec"}) {
    StoreRun run = shape("sim", *registry.at(protocol));
    run.deploy.window = 32;
    run.operations = 20'000;
    run.options[protocol + ".reply-list"] = "1";
    const auto counters = run_store(*registry.at(protocol), run).protocol_counters;
    EXPECT_EQ(counters.at("replies"), counters.at("reply_lists")) << protocol;
    EXPECT_GT(counters.at("server_requests") / counters.at("server_batches"), 1.2) << protocol;
    EXPECT_EQ(counters.at("violations"), 0) << protocol;
  }
}

// The NIC executes the additions, so additional server workers change nothing.
TEST(SeqAtomic, HasNoUseForServerWorkers) {
  const kv::Registry registry = sequencers();
  StoreRun run = shape("sim", *registry.at("seq-atomic"));
  run.deploy.server_workers = 3;
  const auto outcome = run_store(*registry.at("seq-atomic"), run);
  EXPECT_EQ(outcome.protocol_counters.at("numbers"), 5'000);
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

}  // namespace
}  // namespace loch::sequencer
