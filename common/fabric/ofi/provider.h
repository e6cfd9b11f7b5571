// Opens a libfabric provider with its domain and address vector, says what it can do, and registers memory
// with it. Nothing here is called per operation.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/fabric/capabilities.h"

namespace loch::fabric::ofi {

// The providers that are tried if the user names none: NICs before TCP, which every machine has.
inline constexpr std::array preferred_providers = {"cxi", "efa", "verbs;ofi_rxm", "tcp;ofi_rxm"};

struct Closes {
  template <typename T>
  void operator()(T* object) const {
    (void)fi_close(&object->fid);
  }
};
template <typename T>
using Handle = std::unique_ptr<T, Closes>;
struct FreesInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreesInfo>;

// libfabric's text for an error code, positive or negated.
[[nodiscard]] std::string reason(long code);

// Which kinds of request the provider by itself keeps behind a WRITE that was posted before them to the same
// target.
struct KeptOrder {
  bool write_then_read = false, write_then_atomic = false, write_then_write = false;
};
// Derives the kept orders from the provider's description: from the bits of msg_order, which transmit and
// receive attributes both must have, and from the sizes up to which the provider keeps the order of data.
[[nodiscard]] KeptOrder kept_order(const fi_info& info);
// What a protocol can rely on with this provider. `waits_for_writes` is OfiConfig::waits_for_writes.
[[nodiscard]] Capabilities capabilities_of(const fi_info& info, bool waits_for_writes);

// The provider's full name: "tcp" stands for "tcp;ofi_rxm".
[[nodiscard]] std::string full_name(std::string_view provider);

class Provider {
 public:
  // Opens the provider, or the first of preferred_providers that this machine has if `wanted` is empty.
  [[nodiscard]] static Result<std::unique_ptr<Provider>> open(const std::string& wanted);

  [[nodiscard]] const fi_info& info() const { return *info_; }
  [[nodiscard]] std::string name() const { return info_->fabric_attr->prov_name; }
  [[nodiscard]] fid_domain* domain() const { return domain_.get(); }
  [[nodiscard]] fid_av* addresses() const { return addresses_.get(); }
  // Whether remote addresses are those of the target's memory; otherwise they are offsets in the region.
  [[nodiscard]] bool uses_addresses() const { return has_mode(FI_MR_VIRT_ADDR); }
  [[nodiscard]] bool needs_local_registration() const { return has_mode(FI_MR_LOCAL); }
  [[nodiscard]] bool binds_memory_to_endpoints() const { return has_mode(FI_MR_ENDPOINT); }
  // Whether the target's CPU has to call the provider so that requests to the target make progress.
  [[nodiscard]] bool needs_target_cpu() const {
    return info_->domain_attr->data_progress != FI_PROGRESS_AUTO;
  }
  // Refuses a provider whose endpoints have no CAS or no FAA of 8 bytes.
  [[nodiscard]] Result<> check_atomics(fid_ep* endpoint) const;
  // Registers memory for access by peers (`access`: FI_REMOTE_READ …) or as a local buffer. `key` is the
  // wanted key, which a provider that chooses keys itself ignores. The memory is bound to `endpoint` if the
  // provider binds memory to endpoints.
  [[nodiscard]] Result<Handle<fid_mr>> register_memory(void* start, std::size_t bytes, std::uint64_t access,
                                                       std::uint64_t key, fid_ep* endpoint);
  // Returns a new key for a local buffer: no peer uses it, and no region has it.
  [[nodiscard]] std::uint64_t next_local_key() { return local_keys | local_key_++; }

 private:
  static constexpr std::uint64_t local_keys = std::uint64_t{1} << 31;
  [[nodiscard]] bool has_mode(int bit) const { return (info_->domain_attr->mr_mode & bit) != 0; }
  [[nodiscard]] Result<> open_domain();

  Info info_;
  Handle<fid_fabric> fabric_;
  Handle<fid_domain> domain_;
  Handle<fid_av> addresses_;
  std::uint64_t local_key_ = 0;
};

}  // namespace loch::fabric::ofi
