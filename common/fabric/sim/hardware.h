// A hardware profile: every constant that the simulator knows of a machine, its NIC and its network.
// Profiles are YAML files in experiments/hardware; each constant carries its unit and its source, a
// datasheet or a microbenchmark (docs/simulator.md). Nothing here is fitted to a system-level figure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/sim/cpu_profile.h"
#include "common/fabric/wire.h"
#include "common/settings/setting.h"

namespace loch::fabric::sim {

// The NIC. Times of "per request" are the gap of its processing units when nothing misses: the
// reciprocal of a published peak rate. A gap is how far apart requests are, not how long one takes:
// that is `pipeline`, once for each pass through the NIC.
struct NicProfile {
  // Requester side: nanoseconds between requests of one kind, all queue pairs together.
  double request_read_ns = 0, request_write_ns = 0, request_send_ns = 0, request_ud_ns = 0,
         request_atomic_ns = 0;
  double request_line_ns = 0;  // more for each 64-byte line of a work request beyond the first
  double queue_pair_ns = 0;    // one queue pair alone: between work requests that the NIC has to fetch
  // Side of arrivals: likewise for requests, and for responses (READ data, an ACK, an atomic reply).
  double respond_read_ns = 0, respond_write_ns = 0, respond_recv_ns = 0, respond_atomic_ns = 0;
  double response_ns = 0;
  double respond_byte_ns = 0;  // more for each byte that a READ fetches, where the units do not overlap it
  // Additional time of one more DMA: a payload that is fetched, or placed in addition to its completion.
  double payload_ns = 0;
  std::uint32_t inline_receive_bytes = 0;  // payloads of RECVs that travel in the completion; 0: none do
  double inline_receive_ns = 0;            // additional time of a RECV with inline payload
  double pipeline_ns = 0;                  // latency of one pass through the NIC
  std::uint32_t atomic_buckets = 1;        // locks for atomics, by address; 1: one for the whole NIC
  double atomic_hold_ns = 0;               // how long a lock is held: one PCIe read and one write
  std::uint32_t queue_pair_entries = 0;    // contexts of queue pairs that fit in its cache
  std::uint32_t translation_entries = 0;   // page translations (MTT) that fit
  std::uint32_t work_request_entries = 0;  // work requests kept until their response
  std::uint64_t page_bytes = 4096;         // page size of registered memory
  std::uint32_t outstanding_fetches = 8;   // PCIe reads for cache misses in flight at once
  std::uint32_t max_rd_atomic = 16;        // READs and atomics outstanding on a queue pair
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t send_queue_depth = 128, recv_queue_depth = 512;
  bool is_post_by_mmio = false;       // a lone work request is written through MMIO, not fetched by DMA
  bool is_in_order_placement = true;  // a message's bytes appear in address order
  double retry_timeout_ns = 0;        // of RC: 4.096 us * 2^n
  std::uint32_t retry_count = 7, rnr_retry_count = 7;
  double rnr_timer_ns = 0;
};

struct PcieProfile {
  double gbytes_s = 0;                  // each direction, after line coding (GB = 10^9 bytes)
  double read_ns = 0;                   // a DMA read: request to first data
  double write_ns = 0;                  // a DMA write: until a CPU can see it
  double mmio_ns = 0;                   // a CPU's write through MMIO: until the NIC has it
  double read_header_bytes = 26;        // of a packet that writes, or asks for a read (P_r)
  double data_header_bytes = 22;        // of each packet that answers a read (P_c)
  double link_layer_bytes = 0;          // of acknowledgments and credits, a packet
  std::uint32_t packet_bytes = 128;     // data bytes of a read completion or posted write
  std::uint32_t completion_bytes = 64;  // a completion queue entry
};

struct LinkProfile {
  LinkFormat format = LinkFormat::infiniband;
  double gbits_s = 0;  // data rate of a node's link, each direction, after line coding
  std::uint32_t mtu_bytes = 4096;
  std::uint32_t framing_bytes = 0;  // time of a packet on the link beside its bytes: preamble, gap, credits
  double switch_ns = 0;             // one switch, port to port
  double cable_ns = 0;              // both cables, node to node
  // What the switch takes from a node while the ports that it goes to are busy; then the node's link is
  // held, for all destinations alike (IEEE 802.3x, 802.1Qbb; credits on InfiniBand). 0: it never is.
  std::uint32_t port_buffer_bytes = 0;
};

struct HardwareProfile {
  std::string name;  // "connectx3-10gbe"
  std::string description;
  NicProfile nic;
  PcieProfile pcie;
  LinkProfile link;
  CpuProfile cpu;
  SchedulerProfile scheduler;
  PowerProfile power;
  std::map<std::string, std::string> sources;  // "nic.request_read" -> where the constant comes from
};

// One constant of the file: its key, its unit, where it goes and what is sensible. The table is the
// whole of the format: the loader, `loch list hardware` and the tests go through it.
struct HardwareField {
  using Place = std::variant<double*, std::uint32_t*, std::uint64_t*, bool*, LinkFormat*>;
  const char* section;
  const char* key;
  const char* unit;  // "ns", "GB/s", "1" (a count), "yes/no", "format"
  Place (*place)(HardwareProfile& profile);
  double least = 0, most = 1e12;
  const char* alias = "";  // another name of `key`, which files may use as well
};
[[nodiscard]] const std::vector<HardwareField>& hardware_fields();
// The profile's constants as settings: "nic.request_read", with unit and range.
[[nodiscard]] std::vector<settings::Setting> hardware_settings();

// Reads a profile by name ("connectx3-10gbe", from experiments/hardware under $LOCH_HOME, else under
// the source folder) or from a YAML file. Errors are one line: file, line, key, what was expected.
[[nodiscard]] Result<HardwareProfile> load_hardware(std::string_view name_or_file);
// Reads a hardware profile from a text; `path` names it in error messages.
[[nodiscard]] Result<HardwareProfile> parse_hardware(const std::string& text, const std::string& path);
// Names of the profiles that load_hardware finds by name, sorted.
[[nodiscard]] std::vector<std::string> list_hardware();

}  // namespace loch::fabric::sim
