// The RDMA devices of this host, as libibverbs lists them. Control path.
#pragma once

#include <infiniband/verbs.h>

#include "common/fabric/verbs/choice.h"

namespace loch::fabric::verbs {

// The list of this host's devices, which is freed with this object.
struct DeviceList {
  DeviceList() : list(ibv_get_device_list(&count)) {}
  ~DeviceList() {
    if (list != nullptr) ibv_free_device_list(list);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  // Returns the device of the given name, or null.
  [[nodiscard]] ibv_device* find(const std::string& name) const;
  int count = 0;
  ibv_device** list;
};

// Returns every port of every device of this host. A port that cannot be used has the reason in `refusal`.
[[nodiscard]] HostOffer offer_of_this_host(const Wish& wish);
// Returns the rate in Gbit/s for the width and speed codes of ibv_port_attr; 0 if the codes are unknown.
[[nodiscard]] double gigabits_of(std::uint8_t width, std::uint8_t speed);

}  // namespace loch::fabric::verbs
