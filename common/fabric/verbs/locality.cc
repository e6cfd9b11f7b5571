// Reads the NUMA node of an RDMA device from sysfs.
#include "common/fabric/verbs/locality.h"

#include <fstream>

namespace loch::fabric::verbs {

Locality locality_of(std::string_view device, const std::filesystem::path& devices) {
  Locality out;
  const std::string_view name = device.substr(0, device.find(' '));
  out.is_software = device.ends_with("(Soft-RoCE)");
  std::ifstream in(devices / name / "device" / "numa_node");
  std::int64_t number = -1;  // what the kernel says for a device that is attached to no NUMA node
  if (in >> number && number >= 0) out.numa_node = static_cast<std::uint32_t>(number);
  return out;
}

}  // namespace loch::fabric::verbs
