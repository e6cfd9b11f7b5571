// Gives the table of emulated machines as JSON, for scripts that plan which tests run on which machine.
#include <cstdio>
#include <string>

#include "common/fabric/verbs/zoo/model.h"

namespace loch::fabric::verbs::zoo {
namespace {

std::string pair(const char* name, const std::string& value) {
  return "\"" + std::string(name) + "\": " + value;
}
std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }
std::string truth(bool value) { return value ? "true" : "false"; }

std::string to_json(const DeviceModel& device) {
  constexpr const char* orders[] = {"never", "rts", "always"};
  return "{" + pair("name", quoted(device.name)) + ", " +
         pair("infiniband", truth(device.link == IBV_LINK_LAYER_INFINIBAND)) + ", " +
         pair("rc", truth(device.rc)) + ", " + pair("uc", truth(device.uc)) + ", " +
         pair("ud", truth(device.ud)) + ", " + pair("iwarp", truth(device.transport == IBV_TRANSPORT_IWARP)) +
         ", " + pair("atomics", truth(device.atomics != IBV_ATOMIC_NONE)) + ", " +
         pair("srq", truth(device.max_srq != 0)) + ", " + pair("requires_grh", truth(device.requires_grh)) +
         ", " + pair("in_order", quoted(orders[static_cast<int>(device.in_order)])) + ", " +
         pair("max_inline", std::to_string(device.max_inline)) + ", " +
         pair("mtu", std::to_string(device.mtu_bytes)) + ", " +
         pair("max_rd_atomic", std::to_string(device.max_rd_atomic)) + ", " +
         pair("domains", truth(device.has_domains)) + ", " + pair("extended", truth(device.has_extended)) +
         "}";
}

std::string to_json(const Machine& machine) {
  std::string devices;
  for (const DeviceModel& device : machine.devices)
    devices += (devices.empty() ? "" : ", ") + to_json(device);
  return "{" + pair("name", quoted(machine.name)) + ", " + pair("stands_for", quoted(machine.stands_for)) +
         ", " + pair("source", quoted(machine.source)) + ", " + pair("devices", "[" + devices + "]") + "}";
}

}  // namespace
}  // namespace loch::fabric::verbs::zoo

// The table of emulated machines as JSON. The text is valid for the life of the process. Called by Python
// through ctypes.
extern "C" [[gnu::visibility("default")]] const char* loch_zoo_machines() {
  namespace zoo = loch::fabric::verbs::zoo;
  static const std::string text = [] {
    std::string all;
    for (const zoo::Machine& machine : zoo::machines())
      all += (all.empty() ? "" : ", ") + zoo::to_json(machine);
    return "[" + all + "]";
  }();
  return text.c_str();
}
