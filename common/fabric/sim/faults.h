// The faults that the simulator can inject: each weak behaviour that the fabric contract allows (fabric.h,
// rules 1 to 7) and each failure is one named option, off by default. A YAML file sets them by these names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "common/fabric/region.h"

namespace loch::fabric::sim {

// An event that befalls a node, or one of its workers, at a fixed instant of virtual time.
struct ScheduledFault {
  enum class Kind : std::uint8_t {
    // the node loses memory, rkeys and workers; if `span` > 0, it restarts after `span` with fresh memory
    crash,
    pause,       // the node's workers do not run for `span`; its NIC continues
    nic_stall,   // the node's NIC processes nothing for `span`
    cut,         // the node's link is down for `span` (0: for ever)
    kill,        // one worker dies between two instructions; its node and memory stay
    one_way,     // messages from the node to `peer` are lost for `span`; those from `peer` arrive
    lossy,       // each message over the node's link is lost with `chance`, for `span`
    no_buffers,  // SENDs to the node find no receive buffer for `span`
    clock_step,  // the node's clock jumps by `step`
  };
  Kind kind = Kind::pause;
  NodeId node = 0;
  std::uint16_t worker = 0;  // index of the worker that a kill strikes
  Nanos at = 0, span = 0;
  NodeId peer = 0;    // for one_way: the node that messages do not reach
  double chance = 0;  // for lossy: probability that a message is lost
  Nanos step = 0;     // for clock_step: change of the clock in ns
  friend bool operator==(const ScheduledFault&, const ScheduledFault&) = default;
};
[[nodiscard]] std::string_view name(ScheduledFault::Kind kind);

// A probability applies to each message, unless its own comment says otherwise. A member named `..._span` is
// the longest duration that is drawn, in ns of virtual time.
struct SimFaults {
  // Rule 1 of fabric.h: the cache lines of a transfer are fetched or placed at different instants, in random
  // order.
  double torn_read = 0;           // probability that the responder's fetch of a READ is torn
  double torn_write = 0;          // probability that the placement of a WRITE or SEND is torn
  double torn_landing = 0;        // probability that the data of a READ are placed torn
  Nanos torn_span = 2'000;        // ns; longest time from the first to the last piece of a torn transfer
  std::uint32_t torn_chunks = 8;  // upper bound of the pieces into which a transfer is torn
  // Rule 2 of fabric.h, if true: a CAS or FAA reads memory at one instant and writes it at a later one; CPU
  // stores and WRITEs may take effect between them.
  bool split_atomics = false;
  Nanos split_span = 300;
  // Rule 3 of fabric.h: probability that a WRITE completes before the remote CPU can see it.
  double late_write = 0;
  Nanos late_write_span = 5'000;
  // Rule 4 of fabric.h: probability that a WRITE posted after a READ or atomic overtakes it, unless fenced.
  double overtaking_write = 0;
  Nanos overtaking_span = 3'000;
  // Rule 6 of fabric.h: probabilities that a message is lost, on UC and on UD.
  double uc_loss = 0, ud_loss = 0;  // half of the lost UC WRITEs of more than 64 bytes are placed in part
  double ud_reorder = 0;
  Nanos ud_reorder_span = 20'000;
  double rc_loss = 0;  // probability that an RC request or its response is lost at one try; the NIC retries
  double rnr = 0;      // probability that a SEND finds no receive buffer at its first try
  // Faults of the nodes' clocks and of the workers' timing.
  Nanos clock_skew = 0;        // ns; each node's clock differs from true time by at most this
  double clock_drift_ppm = 0;  // each node's clock drifts from true time by at most this
  Nanos jitter = 0;            // ns; each poll is late by at most this
  // probability that a worker is a straggler, which gets its core late at each poll
  double stragglers = 0;
  // ns; longest lag (delay of polls) of a straggler; each straggler draws its lag up to this
  Nanos lag = 0;
  // workers with a lower index than this are never made stragglers (workers that get their core late)
  std::uint32_t first_straggler = 0;
  // Probability that a worker loses its core in the middle of a computation (to an interrupt or another
  // thread). The computation then takes up to interrupted_span longer, and memory that the worker is writing
  // stays half-written meanwhile.
  double interrupted = 0;
  Nanos interrupted_span = 5'000;
  double slow_dma = 0;  // probability that a DMA takes longer, by up to slow_dma_span
  Nanos slow_dma_span = 10'000;
  // Failures at scheduled times. The members after this one are mean numbers of randomly drawn failures per
  // node and second of virtual time.
  std::vector<ScheduledFault> schedule;
  double pause_rate = 0, nic_stall_rate = 0, cut_rate = 0, kill_rate = 0, crash_rate = 0;
  Nanos outage_span = 100'000;  // ns; longest drawn pause, NIC stall, cut, or time from crash to restart
  std::uint32_t kills = 0;      // upper bound of the number of drawn kills and crashes
  Nanos heal_at = 0;            // ns; no fault is drawn after this time; 0: faults are drawn until the end

  [[nodiscard]] bool any() const;
};

// Reads a faults file. An error is one line with file, line, key and what was expected.
[[nodiscard]] Result<SimFaults> load_faults(const std::string& path);
// Reads the faults from a text; `path` names it in error messages.
[[nodiscard]] Result<SimFaults> parse_faults(const std::string& text, const std::string& path);
// Draws a mixture of faults for one seed: first which kinds occur, then how often. It includes weak memory
// behaviour, clocks, losses, pauses, stalls and short cuts; kills and crashes only if the caller sets them.
[[nodiscard]] SimFaults swarm(Rng& rng);

}  // namespace loch::fabric::sim
