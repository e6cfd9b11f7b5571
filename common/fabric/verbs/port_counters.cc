// Reads from the kernel's files the counters of an RDMA device's port, the device's driver and its NUMA node.
#include "common/fabric/verbs/port_counters.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

namespace loch::fabric::verbs {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns the number in the first line of a file; nothing if the line is not a number.
template <typename Number>
std::optional<Number> number_of_file(const std::filesystem::path& path) {
  const std::string line = first_line(path);
  Number value = 0;
  const char* end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data(), end, value);
  if (error != std::errc{}) return std::nullopt;
  constexpr std::string_view blanks = " \t";
  return std::string_view(rest, end).find_first_not_of(blanks) == std::string_view::npos
             ? std::optional(value)
             : std::nullopt;
}

// Adds the counters that are files of the folder to `to`; a counter that `to` has already keeps its value.
void add_counters(const std::filesystem::path& folder, CounterValues& to) {
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (name == "lifespan") continue;  // for how many ms the kernel gives the same values again
    if (const auto value = number_of_file<std::uint64_t>(at->path())) to.emplace(name, *value);
  }
}

}  // namespace

std::string rdma_folder() {
  const char* given = std::getenv("LOCH_RDMA_SYSFS");
  return given == nullptr || *given == '\0' ? "/sys/class/infiniband" : given;
}

CounterValues read_port_counters(const std::string& folder, const std::string& device, std::uint32_t port) {
  const std::filesystem::path of = std::filesystem::path(folder) / device;
  const std::filesystem::path at = of / "ports" / std::to_string(port);
  CounterValues values;
  add_counters(at / "counters", values);
  add_counters(at / "hw_counters", values);
  add_counters(of / "hw_counters", values);
  return values;
}

DevicePlace read_device_place(const std::string& folder, const std::string& device) {
  const std::filesystem::path of = std::filesystem::path(folder) / device / "device";
  std::error_code failure;
  const std::filesystem::path driver = std::filesystem::read_symlink(of / "driver", failure);
  DevicePlace place;
  if (!failure) place.driver = driver.filename().string();
  place.numa_node = number_of_file<int>(of / "numa_node").value_or(-1);
  return place;
}

}  // namespace loch::fabric::verbs
