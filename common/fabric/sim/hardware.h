// A hardware profile: every constant that the simulator knows of a machine, its NIC and its network.
// Profiles are YAML files in experiments/hardware; each constant carries its unit and its source, a
// datasheet or a microbenchmark (docs/simulator.md). Nothing here is fitted to a system-level figure.
#pragma once

#include <cstdint>
#include <filesystem>
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

// What many outstanding requests, queue pairs and threads of a node cost at its NIC. All members 0: nothing.
struct CrowdedNic {
  // The NIC's cache of work requests: when more than `posted_entries` requests of a node are posted and
  // unanswered, a growing share of new ones misses the cache, all of them from posted_entries + posted_ramp
  // on. A miss lengthens the gap between two requests of the NIC, by posted_read_ns for a READ or atomic,
  // else by posted_write_ns.
  std::uint32_t posted_entries = 0, posted_ramp = 0;
  double posted_read_ns = 0, posted_write_ns = 0;
  // The NIC's cache of answers: as posted_entries and posted_ramp, but for the READs and atomics of a node
  // that are on the wire. A miss lengthens the gap between two of their answers by answer_miss_ns.
  std::uint32_t answer_entries = 0, answer_ramp = 0;
  double answer_miss_ns = 0;
  // ns that each queue pair in use at a NIC adds to the time in which a request or answer goes through that
  // NIC
  double queue_pair_latency_ns = 0;
  // ns that it takes the NIC to fetch a work request which is posted alone to a queue pair that has another
  // one outstanding, on a NIC that accepts work requests by MMIO only for queue pairs without one; 0: it
  // accepts all by MMIO.
  double busy_fetch_ns = 0;
  // Doorbell registers. By default the first `private_doorbells` queue pairs of a process have one each, and
  // the others get the `shared_doorbells` in rotation (0: sharing is not modelled); the driver can be told to
  // make up to own_doorbells, one for each thread.
  std::uint32_t private_doorbells = 0, shared_doorbells = 0, own_doorbells = 0;
  // For how many ns a thread occupies a doorbell register that the driver locks, which are all but the
  // private ones: doorbell_again_ns if it also had it last (it always has one of its own), doorbell_take_ns
  // if another thread had it last and it is free, else doorbell_pass_ns * (number of threads that hold or
  // await it) ^ doorbell_exponent.
  double doorbell_again_ns = 0, doorbell_take_ns = 0, doorbell_pass_ns = 0, doorbell_exponent = 0;
};

// How a work request that is posted alone reaches the NIC, which the driver's library decides: the CPU writes
// it by MMIO (BlueFlame), or rings a doorbell and the NIC fetches it. Chains of work requests are always
// fetched. stage_costs.h has the rules.
enum class Posting : std::uint8_t { doorbell, libmlx4, any };

// The NIC. A gap is the time between two requests that the NIC processes one after the other without a cache
// miss: the reciprocal of a published peak rate. A request's latency has pipeline_ns for each time that the
// request or its answer goes through a NIC.
struct NicProfile {
  // Requester side: time in ns between two requests of one kind, over all queue pairs.
  double request_read_ns = 0, request_write_ns = 0, request_send_ns = 0, request_ud_ns = 0,
         request_atomic_ns = 0;
  // ns added between requests for each 64-byte line of a work request after its first
  double request_line_ns = 0;
  // ns between two work requests that the NIC fetches from the same queue pair
  double queue_pair_ns = 0;
  // Responder side: time in ns between two requests of one kind, and between two responses (READ data, an
  // ACK, an atomic reply).
  double respond_read_ns = 0, respond_write_ns = 0, respond_recv_ns = 0, respond_atomic_ns = 0;
  double response_ns = 0;
  // ns added to the time between two READs for each byte fetched, on a NIC that does not overlap the fetch
  // with the next request; 0 on others
  double respond_byte_ns = 0;
  // ns added to the time between two requests for one more DMA: fetching a payload that is not inlined, or
  // placing a RECV's payload outside its completion queue entry.
  double payload_ns = 0;
  // largest payload of a RECV that the NIC writes into the completion queue entry; 0: it never does
  std::uint32_t inline_receive_bytes = 0;
  // ns added between two RECVs whose payload is in the completion queue entry
  double inline_receive_ns = 0;
  double pipeline_ns = 0;  // latency of a request or answer on its way through a NIC
  // true: requests and the data that answer READs leave through one unit of the NIC, which is busy until the
  // message is on the link; false: a READ occupies the unit that handles arriving messages
  bool is_transmit_shared = false;
  // number of units that transmit; with n of them each takes n times as long for a message, and a queue pair
  // always uses the same one
  std::uint32_t transmit_units = 1;
  // ns for which a transmitting unit stops when a queue pair's context is not in the NIC's cache
  double context_stall_ns = 0;
  // segment_bytes: a READ of more bytes takes segment_ns longer for each further segment, at the requester's
  // and at the responder's NIC; 0: a READ is one segment
  std::uint32_t segment_bytes = 0;
  double segment_ns = 0;
  // number of locks for atomics, chosen by address; 1: one lock for the whole NIC
  std::uint32_t atomic_buckets = 1;
  // for how long an atomic holds its lock, one PCIe read and one write: where its word is in the processor's
  // cache, and where the region is larger than that cache (cpu.last_level_cache_bytes). 0: no difference
  double atomic_hold_ns = 0, atomic_hold_memory_ns = 0;
  // how many atomics the responder's NIC has under way, each from when it is taken up until it has released
  // its lock; one that finds as many holds up everything that arrives behind it. 0: unlimited
  std::uint32_t atomic_places = 0;
  // ns for which the unit that takes what arrives stops when a message's queue pair context or the
  // translation of its memory is not in the NIC's cache
  double receive_stall_ns = 0;
  std::uint32_t queue_pair_entries = 0;   // queue pair contexts that fit in the NIC's cache
  std::uint32_t translation_entries = 0;  // page translations (MTT entries) that fit in the NIC's cache
  // work requests that the NIC's cache holds, each from its posting until its response
  std::uint32_t work_request_entries = 0;
  CrowdedNic crowded;
  std::uint64_t page_bytes = 4096;        // page size of registered memory
  std::uint32_t outstanding_fetches = 8;  // PCIe reads for cache misses that can be outstanding
  std::uint32_t max_rd_atomic = 16;       // READs and atomics that one queue pair can have outstanding
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t send_queue_depth = 128, recv_queue_depth = 512;
  Posting posting = Posting::doorbell;
  // largest work request that is written by MMIO, in bytes: a BlueFlame buffer
  std::uint32_t blueflame_bytes = 256;
  bool is_in_order_placement = true;  // a message's bytes become visible in the order of their addresses
  double retry_timeout_ns = 0;        // RC's retransmission timer: 4.096 us * 2^n
  std::uint32_t retry_count = 7, rnr_retry_count = 7;
  double rnr_timer_ns = 0;
};

struct PcieProfile {
  double gbytes_s = 0;  // bandwidth of the PCIe bus in each direction, after line coding (GB = 10^9 bytes)
  double read_ns = 0;   // latency of a DMA read until the first data arrive
  double write_ns = 0;  // latency of a DMA write until a CPU can see the data
  double mmio_ns = 0;   // latency of a CPU's MMIO write until the NIC has it
  // header of a packet that writes data or requests a read (P_r in Kalia et al. 2016)
  double read_header_bytes = 26;
  double data_header_bytes = 22;     // header of each packet that answers a read (P_c in Kalia et al. 2016)
  double link_layer_bytes = 0;       // bytes of PCIe acknowledgments and credits for each packet
  std::uint32_t packet_bytes = 128;  // data bytes of one read completion or posted write
  std::uint32_t completion_bytes = 64;  // size of a completion queue entry
  // The first packet that answers a DMA read ends at a multiple of so many bytes (the read completion
  // boundary). 0: DMA reads are cut into packets by their length alone.
  std::uint32_t completion_boundary_bytes = 0;
};

struct LinkProfile {
  LinkFormat format = LinkFormat::infiniband;
  double gbits_s = 0;  // data rate of a node's link in each direction, after line coding
  std::uint32_t mtu_bytes = 4096;
  // bytes that each packet occupies on the link besides its headers and payload: preamble, gap, credits
  std::uint32_t framing_bytes = 0;
  double switch_ns = 0;  // latency of one switch from port to port
  double cable_ns = 0;   // sum of the latencies of the two cables between a node, the switch and another node
  // Bytes that the switch accepts from a node while the destination port is busy. When they are used up, the
  // node's link is paused for all destinations (IEEE 802.3x, 802.1Qbb; credits on InfiniBand). 0: it is never
  // paused.
  std::uint32_t port_buffer_bytes = 0;
  // How far what waits must fall below port_buffer until the switch lets the node's link go on (XON). 0: the
  // link goes on as soon as there is room for a packet.
  std::uint32_t xon_offset_bytes = 0;
  // Time until a pause takes effect, and until its end does: from the instant at which the switch's threshold
  // is passed to the instant at which data cease, or begin, to arrive. The switch has room for what arrives
  // meanwhile, beside port_buffer.
  double pause_delay_ns = 0;
};

// The range in which the true value of a constant lies as far as its source tells, for runs with sampled
// constants (docs/runner.md). Both ends are in the constant's unit and enclose its value.
struct HardwareRange {
  double low = 0, high = 0;
  // true: values are drawn evenly in the logarithm, and `low` is above 0; false: evenly in the value
  bool is_log = false;
  std::string source;  // source of the range where it is another than the value's, else empty
};

struct HardwareProfile {
  std::string name;  // name of the profile, such as "connectx3-10gbe"
  std::string description;
  NicProfile nic;
  PcieProfile pcie;
  LinkProfile link;
  CpuProfile cpu;
  SchedulerProfile scheduler;
  PowerProfile power;
  // source of each constant, by its key such as "nic.request_read"
  std::map<std::string, std::string> sources;
  // range of each constant whose file states one, by the constant's key
  std::map<std::string, HardwareRange> ranges;
};

// One constant of a profile: its key, unit, variable and range. The table of fields defines the whole format:
// the loader, `loch list hardware` and the tests use it.
struct HardwareField {
  using Place = std::variant<double*, std::uint32_t*, std::uint64_t*, bool*, LinkFormat*, Posting*>;
  const char* section;
  const char* key;
  const char* unit;  // "ns", "GB/s", "1" (a plain number), "yes/no", "format" (of packets on the link),
                     // "driver" (whose rule of posting holds)
  Place (*place)(HardwareProfile& profile);
  double least = 0, most = 1e12;
  const char* alias = "";        // another name of `key`, which files may use as well
  const char* former_unit = "";  // another unit that files may state
};
[[nodiscard]] const std::vector<HardwareField>& hardware_fields();
// The profile's constants as settings: "nic.request_read", with unit and range.
[[nodiscard]] std::vector<settings::Setting> hardware_settings();

// Reads a profile by name ("connectx3-10gbe", from experiments/hardware under $LOCH_HOME, or else under the
// source folder) or from a YAML file. An error is one line with file, line, key and what was expected.
[[nodiscard]] Result<HardwareProfile> load_hardware(std::string_view name_or_file);
// Reads a hardware profile from a text; `path` names it in error messages.
[[nodiscard]] Result<HardwareProfile> parse_hardware(const std::string& text, const std::string& path);
// Changes constants of a profile: `changes` is KEY=VALUE[,KEY=VALUE…] with keys such as nic.pipeline and
// values in the constant's unit. An error is one line: an unknown key, a key given twice, or a value outside
// the constant's limits.
[[nodiscard]] Result<> change_constants(std::string_view changes, HardwareProfile& profile);
// A constant's value as text, as a profile's file would have it.
[[nodiscard]] std::string constant_text(const HardwareField& field, const HardwareProfile& profile);
// Whether a constant is a whole number, such as a count of entries.
[[nodiscard]] bool is_whole(const HardwareField& field);
// The folder of the profiles that load_hardware finds by name.
[[nodiscard]] std::filesystem::path profiles_folder();
// Names of the profiles that load_hardware finds by name, sorted.
[[nodiscard]] std::vector<std::string> list_hardware();

}  // namespace loch::fabric::sim
