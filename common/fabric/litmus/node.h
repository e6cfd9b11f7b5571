// What both nodes of the litmus suite (tests, called races, of one-sided requests beside other memory
// accesses) have in common: the layout of their memory, their requests, and the values of the words by which
// they coordinate.
#pragma once

#include <fmt/format.h>

#include <array>
#include <atomic>

#include "common/fabric/litmus/player.h"
#include "common/fabric/memory.h"

namespace loch::fabric::litmus {

inline constexpr const char* region_name = "litmus";
inline constexpr std::uint32_t word_bytes = 8, line_bytes = 64, long_bytes = 8192;
inline constexpr NodeId leading = 0, following = 1;

// Offsets in a node's registered region; both nodes have the same layout.
namespace layout {
// Offsets of the words in node 1's memory that node 0 writes.
inline constexpr std::uint64_t command = 0, cas_cpu = 64, cas_nic = 128, spare = 192;
inline constexpr std::uint64_t block = 4096, long_block = 16'384, stop = 32'768;
inline constexpr std::uint64_t a = stop - 192, b = stop - 128, flag = stop - 64;
// Offsets of words in node 0's memory: node 1 writes `echo` and `report`; node 0's second worker polls
// `completed`.
inline constexpr std::uint64_t echo = 256, completed = 320, report = 1024;
// Offsets of the local buffers of a node's own requests.
inline constexpr std::uint64_t source = 384, told = 448, witnessed = 512, landing = 576;
inline constexpr std::uint64_t own_block = 8192, own_long = 40'960, receives = 53'248;
inline constexpr std::uint64_t bytes = 65'536;
}  // namespace layout

inline constexpr std::uint32_t receive_buffers = 8;
// The value that node 1 writes to `echo` when it has done as many rounds of this litmus test (race) as there
// are to be tries.
[[nodiscard]] constexpr std::uint64_t enough(std::uint64_t race_number) { return (1ull << 40) + race_number; }
// as value of `command`: the litmus tests have ended early
inline constexpr std::uint64_t give_up = 255;
// as value of `completed`: all litmus tests have ended
inline constexpr std::uint64_t nothing_more = ~0ull;
inline constexpr std::uint64_t last_message = 1 << 30;  // payload of the SEND that ends a litmus test

// What node 1 counted, as it WRITEs it to node 0. By the checksum `sum` node 0 knows when all bytes of the
// report have arrived, in whatever order.
struct Report {
  std::array<std::uint64_t, 2 + units.size()> counts{};
  std::uint64_t sum = 0;
  [[nodiscard]] std::uint64_t expected_sum(std::uint64_t number) const {
    constexpr std::uint64_t prime = 0x100000001b3;
    std::uint64_t hash = (number + 1) * prime;
    for (const std::uint64_t word : counts) hash = (hash ^ word) * prime + 1;
    return hash;
  }
};

class Node : public Player {
 public:
  Node(NodeId self, const Plan& plan)
      : plan_(plan), self_(self), peer_(self == leading ? following : leading) {
    seen_.resize(plan.races.size());
  }
  [[nodiscard]] const std::string& fault() const override { return fault_; }
  [[nodiscard]] const std::vector<Seen>& seen() const override { return seen_; }

 protected:
  [[nodiscard]] Result<Worker*> add_worker(Fabric& fabric, std::uint16_t index, const char* name) const {
    const Capabilities& can = fabric.capabilities();
    return fabric.add_worker({.node = self_,
                              .role = Role::client,
                              .index = index,
                              .core = -1,
                              .name = name,
                              .uses_rc = true,
                              .receives_rc = can.receives_connected && index == 0,
                              .receives_uc = false});
  }
  [[nodiscard]] Result<> open(Fabric& fabric) {
    LOCH_ASSIGN(region_, fabric.register_region(self_, {region_name, layout::bytes, true, true, true, {}}));
    LOCH_ASSIGN(worker_, add_worker(fabric, 0, "litmus"));
    return {};
  }
  [[nodiscard]] Result<> find_memory(Fabric& fabric) {
    LOCH_ASSIGN(peer_memory_, fabric.lookup(peer_, region_name));
    LOCH_ASSIGN(own_memory_, fabric.lookup(self_, region_name));
    return {};
  }
  [[nodiscard]] std::uint64_t load(std::uint64_t offset) const { return load_word(region_->at(offset)); }
  void store(std::uint64_t offset, std::uint64_t value) const {
    store_word_release(region_->at(offset), value);
  }
  [[nodiscard]] LocalSlice here(std::uint64_t offset) const { return {region_, offset}; }
  // Makes a one-sided request to the memory of the litmus suite's other node.
  [[nodiscard]] WorkRequest request(Verb verb, std::uint64_t there, std::uint64_t local,
                                    std::uint32_t length = word_bytes) const {
    return one_sided(verb, peer_memory_, there, here(local), length, nullptr);
  }
  [[nodiscard]] bool can_run(Race race) const {
    return claim_of(race, worker_->capabilities()).missing.empty();
  }
  // Notes why the litmus tests (races) end early. Returns false.
  bool fail_with(Race race, std::string_view why) {
    if (fault_.empty()) fault_ = fmt::format("{}: {}", name(race), why);
    return false;
  }

  Plan plan_;
  NodeId self_, peer_;
  Region* region_ = nullptr;
  Worker* worker_ = nullptr;
  RemoteRegion peer_memory_, own_memory_;
  std::vector<Seen> seen_;
  std::string fault_;
};

[[nodiscard]] Result<std::unique_ptr<Player>> make_leader(Fabric& fabric, const Plan& plan);
[[nodiscard]] Result<std::unique_ptr<Player>> make_follower(Fabric& fabric, const Plan& plan);

}  // namespace loch::fabric::litmus
