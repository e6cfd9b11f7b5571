// Judges the network of a run by the error and congestion counters that NICs keep: compares the counters of a
// port before and after the run, and says in one line what the network did. The counters are arguments: on
// verbs, verbs/port_counters.h reads them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/region.h"

namespace loch::fabric {

// The counters of one port at one time, by the name that the kernel's driver gives them.
using CounterValues = std::map<std::string, std::uint64_t, std::less<>>;

enum class SymptomKind : std::uint8_t {
  fault,       // packets were lost, damaged, resent or refused: the measured rates suffer
  congestion,  // the network asked senders to slow down
  wait,        // the link was busy, as under any high load
};

struct CounterChange {
  std::uint64_t count = 0;
  // Whether the events may be more than `count`: the counter was reset during the run, or has reached the
  // value at which it stops.
  bool is_least = false;
  bool operator==(const CounterChange&) const = default;
};

// What the counters of one port say about a run.
struct PortHealth {
  // Whether a counter of retransmissions or of requests out of order was read before and after the run.
  // Without one, loss that the NIC's reliable transport hides is not seen.
  bool sees_transport = false;
  bool has_vanished = false;   // true: counters could be read before the run and not after it
  std::uint32_t counters = 0;  // number of known counters that were read before and after the run
  // known counters that have changed, or may have; keyed by name
  std::map<std::string, CounterChange> changes;
  bool operator==(const PortHealth&) const = default;
};

// Compares two readings of one port. Counters whose names are not known are ignored. A counter that has
// become smaller has wrapped at 2^32 if it was in the upper half of 32 bits before and is in the lower half
// now; otherwise it was reset, and the new value is the least that was counted. The counters of InfiniBand's
// PortCounters (4 to 32 bits) stop at their largest value.
[[nodiscard]] PortHealth compare(const CounterValues& before, const CounterValues& after);

// Converts a port's health to counters of a NodeReport, whose names begin with "port.", and back. The way
// back gives no health if a node's counters have no such names. `rail`: number of the port among those that
// the process uses at once.
[[nodiscard]] std::map<std::string, double> to_counters(const PortHealth& health);
[[nodiscard]] PortHealth health_from(const std::map<std::string, double>& counters, std::uint32_t rail = 0);
// What the names of a port's counters in a NodeReport begin with: "rail1." for the process's second port;
// nothing for its first.
[[nodiscard]] std::string rail_prefix(std::uint32_t rail);

// The port that one process of the run used.
struct PortReport {
  NodeId node = 0;  // the first node of the process
  std::string host;
  std::string port;      // names the port on its host; processes that share a port give the same text
  std::string device;    // the port's device if the process uses several ports, else empty
  bool is_lost = false;  // true: the node was lost, so that its counters could not be read after the run
  PortHealth health;
};

struct Symptom {
  NodeId node = 0;
  std::string host, device, counter;  // `device` as in PortReport
  std::string meaning;                // what was counted, in the plural: "retransmissions"
  SymptomKind kind = SymptomKind::fault;
  CounterChange change;
};

struct NetworkState {
  // One line: "clean"; "312 retransmissions on n7"; "not seen: no counters". "clean" alone means that every
  // node's counters were read and none has a fault or congestion.
  std::string verdict;
  bool is_sick = false;           // true: there is at least one symptom that is a fault
  std::vector<Symptom> symptoms;  // sorted by node; faults before congestion before waits
};

// Judges the ports of all processes of a run. A port that several processes share counts once.
[[nodiscard]] NetworkState judge(std::span<const PortReport> ports);

[[nodiscard]] std::string_view name(SymptomKind kind);

}  // namespace loch::fabric
