// What the RDMA devices of this host have, as libibverbs tells it. Control path.
#pragma once

#include <infiniband/verbs.h>

#include "common/fabric/verbs/choice.h"

namespace loch::fabric::verbs {

// The devices of this host; owns the list.
struct DeviceList {
  DeviceList() : list(ibv_get_device_list(&count)) {}
  ~DeviceList() {
    if (list != nullptr) ibv_free_device_list(list);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  // Null where there is none of that name.
  [[nodiscard]] ibv_device* find(const std::string& name) const;
  int count = 0;
  ibv_device** list;
};

// Every port of every device, with why it cannot be used where it cannot.
[[nodiscard]] HostOffer offer_of_this_host(const Wish& wish);
// Gigabits a second of a port's active width and speed as they are coded (ibv_port_attr); 0: not known.
[[nodiscard]] double gigabits_of(std::uint8_t width, std::uint8_t speed);

}  // namespace loch::fabric::verbs
