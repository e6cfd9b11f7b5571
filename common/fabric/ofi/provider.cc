// Chooses and opens a libfabric provider, and says what it can do.
#include "common/fabric/ofi/provider.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/fabric/ofi/lane.h"
#include "common/fabric/ofi/message.h"

namespace loch::fabric::ofi {
namespace {

constexpr std::uint32_t api_version = FI_VERSION(1, 15);
constexpr std::size_t ordered_bytes_least = 1 << 20;
constexpr std::uint32_t queue_depth = 128, receive_depth = 512, datagram_lanes_most = 64;

Info hints_for(const std::string& provider) {
  Info hints(fi_allocinfo());
  hints->caps =
      FI_MSG | FI_RMA | FI_ATOMIC | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode =
      FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL | FI_MR_ENDPOINT;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->fabric_attr->prov_name = strdup(provider.c_str());
  return hints;
}

// Chooses the list's first entry with IPv4 addresses, or the list's first entry if none has IPv4 addresses.
Info best_of(fi_info* list) {
  const fi_info* best = list;
  for (const fi_info* each = list; each != nullptr; each = each->next) {
    if (each->addr_format != FI_SOCKADDR_IN) continue;
    best = each;
    break;
  }
  Info chosen(fi_dupinfo(best));
  fi_freeinfo(list);
  return chosen;
}

Result<Info> find(const std::string& provider) {
  const Info hints = hints_for(provider);
  fi_info* list = nullptr;
  const int code = fi_getinfo(api_version, nullptr, nullptr, 0, hints.get(), &list);
  if (code != 0) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("ofi: provider {} is not here, or has no reliable datagrams with RMA and atomics: {}",
                    provider, reason(code)));
  }
  return best_of(list);
}

Result<Info> choose(const std::string& wanted) {
  if (!wanted.empty()) return find(full_name(wanted));
  for (const char* provider : preferred_providers) {
    if (auto found = find(provider)) return found;
  }
  return fail(ErrorCode::unavailable, fmt::format("ofi: this machine has none of the providers {}",
                                                  fmt::join(preferred_providers, ", ")));
}

bool has_order(const fi_info& info, std::uint64_t general, std::uint64_t special) {
  const std::uint64_t kept = info.tx_attr->msg_order & info.rx_attr->msg_order;
  return ((general | special) & kept) != 0;
}

}  // namespace

std::string reason(long code) { return fi_strerror(static_cast<int>(code < 0 ? -code : code)); }

std::string full_name(std::string_view provider) {
  return provider == "tcp" ? "tcp;ofi_rxm" : std::string(provider);
}

KeptOrder kept_order(const fi_info& info) {
  const bool sees_writes = info.ep_attr->max_order_raw_size >= ordered_bytes_least;
  const bool places_in_order = info.ep_attr->max_order_waw_size >= ordered_bytes_least;
  KeptOrder kept;
  kept.write_then_read = sees_writes && has_order(info, FI_ORDER_RAW, FI_ORDER_RMA_RAW);
  // FI_ORDER_RAW orders a WRITE, which is an RMA operation, before an atomic; FI_ORDER_RMA_RAW says nothing
  // of atomics.
  kept.write_then_atomic = sees_writes && has_order(info, FI_ORDER_RAW, 0);
  kept.write_then_write = places_in_order && has_order(info, FI_ORDER_WAW, FI_ORDER_RMA_WAW);
  return kept;
}

Capabilities capabilities_of(const fi_info& info, bool waits_for_writes) {
  const KeptOrder kept = kept_order(info);
  Capabilities can;
  can.fabric = "ofi";
  can.device = info.fabric_attr->prov_name;
  can.atomic_scope = AtomicScope::nic;
  can.max_inline_bytes = Slot::inline_most;
  can.mtu_bytes = payload_most;
  can.send_queue_depth = queue_depth;
  can.recv_queue_depth = receive_depth;
  can.datagram_queue_pairs = datagram_lanes_most;
  can.write_then_read = kept.write_then_read ? Order::device : waits_for_writes ? Order::waits : Order::none;
  can.write_then_atomic = kept.write_then_atomic ? Order::device
                          : waits_for_writes     ? Order::waits
                                                 : Order::none;
  can.target_cpu = info.domain_attr->data_progress != FI_PROGRESS_AUTO;
  return can;
}

Result<std::unique_ptr<Provider>> Provider::open(const std::string& wanted) {
  auto provider = std::make_unique<Provider>();
  LOCH_ASSIGN(provider->info_, choose(wanted));
  LOCH_TRY(provider->open_domain());
  return provider;
}

Result<> Provider::open_domain() {
  const auto refuse = [this](const char* what, int code) {
    return fail(ErrorCode::unavailable, fmt::format("ofi: provider {} {}: {}", name(), what, reason(code)));
  };
  fid_fabric* fabric = nullptr;
  if (const int code = fi_fabric(info_->fabric_attr, &fabric, nullptr); code != 0)
    return refuse("cannot be opened", code);
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int code = fi_domain(fabric, info_.get(), &domain, nullptr); code != 0)
    return refuse("opens no domain", code);
  domain_.reset(domain);
  fi_av_attr attributes{};
  attributes.type = FI_AV_TABLE;
  fid_av* addresses = nullptr;
  if (const int code = fi_av_open(domain, &attributes, &addresses, nullptr); code != 0)
    return refuse("opens no address vector", code);
  addresses_.reset(addresses);
  return {};
}

Result<> Provider::check_atomics(fid_ep* endpoint) const {
  std::size_t count = 0;
  const bool swaps = fi_compare_atomicvalid(endpoint, FI_UINT64, FI_CSWAP, &count) == 0 && count > 0;
  const bool adds = fi_fetch_atomicvalid(endpoint, FI_UINT64, FI_SUM, &count) == 0 && count > 0;
  if (swaps && adds) return {};
  return fail(ErrorCode::unsupported,
              fmt::format("ofi: provider {} has no {} of 8 bytes", name(), swaps ? "FAA" : "CAS"));
}

Result<Handle<fid_mr>> Provider::register_memory(void* start, std::size_t bytes, std::uint64_t access,
                                                 std::uint64_t key, fid_ep* endpoint) {
  fid_mr* memory = nullptr;
  int code = fi_mr_reg(domain(), start, bytes, access, 0, key, 0, &memory, nullptr);
  Handle<fid_mr> registered(memory);
  if (code == 0 && binds_memory_to_endpoints()) {
    code = fi_mr_bind(memory, &endpoint->fid, 0);
    if (code == 0) code = fi_mr_enable(memory);
  }
  if (code == 0) return registered;
  return fail(ErrorCode::exhausted,
              fmt::format("ofi: provider {} cannot register {} bytes: {}", name(), bytes, reason(code)));
}

}  // namespace loch::fabric::ofi
