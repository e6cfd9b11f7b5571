// Tests of the capabilities derived from a provider's description, and of refused providers.
#include "common/fabric/ofi/provider.h"

#include <gmock/gmock.h>

#include "common/fabric/capabilities.h"
#include "common/fabric/ofi/ofi.h"

namespace loch::fabric::ofi {
namespace {

using testing::HasSubstr;

// A provider's description as fi_getinfo returns it, with these msg_order bits of both directions and the
// sizes up to which the provider keeps the order of data.
Info described(std::uint64_t sent, std::uint64_t received, std::size_t raw_size, std::size_t waw_size) {
  Info info(fi_allocinfo());
  info->fabric_attr->prov_name = strdup("made-up");
  info->tx_attr->msg_order = sent;
  info->rx_attr->msg_order = received;
  info->ep_attr->max_order_raw_size = raw_size;
  info->ep_attr->max_order_waw_size = waw_size;
  info->domain_attr->data_progress = FI_PROGRESS_AUTO;
  return info;
}

constexpr std::size_t large = ~std::size_t{0};

TEST(Provider, AnOrderCountsOnlyAtBothEndsAndForLargeData) {
  constexpr std::uint64_t all = FI_ORDER_RAW | FI_ORDER_WAW;
  const KeptOrder whole = kept_order(*described(all, all, large, large));
  EXPECT_TRUE(whole.write_then_read && whole.write_then_atomic && whole.write_then_write);
  const KeptOrder one_end = kept_order(*described(FI_ORDER_SAS, all, large, large));
  EXPECT_FALSE(one_end.write_then_read || one_end.write_then_atomic || one_end.write_then_write);
  const KeptOrder sizeless = kept_order(*described(all, all, 0, 0));
  EXPECT_FALSE(sizeless.write_then_read || sizeless.write_then_atomic || sizeless.write_then_write);
}

TEST(Provider, TheOrderOfRmaSaysNothingOfAtomics) {
  constexpr std::uint64_t rma = FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW;
  const KeptOrder kept = kept_order(*described(rma, rma, large, large));
  EXPECT_TRUE(kept.write_then_read && kept.write_then_write);
  EXPECT_FALSE(kept.write_then_atomic);
}

TEST(Provider, CapabilitiesSayWhoKeepsOrderAndWhoseCpuWorks) {
  const Info ordered = described(FI_ORDER_RAW, FI_ORDER_RAW, large, large);
  const Info unordered = described(FI_ORDER_SAS, FI_ORDER_SAS, 0, 0);
  EXPECT_EQ(capabilities_of(*ordered, false).write_then_read, Order::device);
  EXPECT_EQ(capabilities_of(*unordered, true).write_then_read, Order::waits);
  EXPECT_EQ(capabilities_of(*unordered, true).write_then_atomic, Order::waits);
  EXPECT_EQ(capabilities_of(*unordered, false).write_then_read, Order::none);
  EXPECT_EQ(capabilities_of(*unordered, false).write_then_atomic, Order::none);
  EXPECT_FALSE(capabilities_of(*ordered, true).target_cpu);
  ordered->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  EXPECT_TRUE(capabilities_of(*ordered, true).target_cpu);
}

TEST(Provider, AProtocolOverRcIsRefusedWithoutOrder) {
  const Info unordered = described(FI_ORDER_SAS, FI_ORDER_SAS, 0, 0);
  const Capabilities can = capabilities_of(*unordered, false);
  Requirements needs;
  needs.rc = true;
  const auto refused = check(needs, can);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "ofi (made-up) lets a READ overtake the WRITE before it (write_then_read)");
  needs.write_then_read = false;
  const auto atomics = check(needs, can);
  ASSERT_FALSE(atomics.has_value());
  EXPECT_THAT(atomics.error().message, HasSubstr("write_then_atomic"));
  needs.write_then_atomic = false;
  EXPECT_TRUE(check(needs, can).has_value());
  EXPECT_TRUE(check({.uc = true, .ud = true}, can).has_value()) << "UC and UD promise no such order";
}

TEST(Provider, TcpStandsForReliableDatagramsOverTcp) {
  EXPECT_EQ(full_name("tcp"), "tcp;ofi_rxm");
  EXPECT_EQ(full_name("shm"), "shm");
  const auto opened = Provider::open("tcp");
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_EQ((*opened)->name(), "tcp;ofi_rxm");
  EXPECT_TRUE((*opened)->needs_target_cpu());
}

TEST(Provider, AnUnknownProviderIsRefusedInOneLine) {
  OfiConfig config;
  config.provider = "carrier-pigeon";
  const auto made = make_ofi(config);
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, HasSubstr("carrier-pigeon"));
  EXPECT_EQ(made.error().message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace loch::fabric::ofi
