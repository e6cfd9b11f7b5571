// Control: what the processes of one launch exchange outside the data path, such as endpoints, barriers,
// results, and notices of lost ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace loch::cluster {

// The control plane of one rank. All calls come from one thread (the set-up thread), except is_lost,
// incarnation and send, which any thread may call.
//
// A meeting (the collectives all_gather, gather and barrier) is called by every live rank in the same
// order with the same `what`. Ranks that are lost, before or during a meeting, are left out and not
// waited for. If a live rank has not come after `within`, the meeting fails in each waiting rank with
// timed_out, and the error names the missing ranks and their hosts. If two ranks come to different
// meetings, it fails with internal and names both. If a rank has ended without coming, it fails at once
// with unavailable. After an error the next meeting may still be held.
class Control {
 public:
  virtual ~Control() = default;
  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const = 0;

  // Every live rank contributes the text `mine` and gets the texts of all ranks, by rank; a lost rank's
  // text is empty. The text of a rank that dies during the call may reach some ranks and not others.
  [[nodiscard]] virtual Result<std::vector<std::string>> all_gather(std::string_view what,
                                                                    const std::string& mine,
                                                                    Nanos within) = 0;
  // Like all_gather, but only rank 0 gets the texts. The other ranks get an empty vector as soon as their
  // text is sent, or at once if rank 0 is lost.
  [[nodiscard]] virtual Result<std::vector<std::string>> gather(std::string_view what,
                                                                const std::string& mine, Nanos within) = 0;
  // A barrier: returns when every live rank has called it.
  [[nodiscard]] virtual Result<> barrier(std::string_view what, Nanos within) = 0;

  // Whether the rank's process or machine died. A lost rank sends nothing until it is restarted. Costs one
  // relaxed load.
  [[nodiscard]] virtual bool is_lost(std::uint32_t rank) const = 0;

  // Sends a message to another rank, in order per pair of ranks, without waiting. A message to a lost
  // rank is dropped without an error.
  virtual void send(std::uint32_t to, std::string_view message) = 0;
  // Sets the handler that the control thread calls for each message sent by send(). Messages that arrive
  // before a handler is set wait for it; set it before the first barrier returns. Setting a handler (or
  // an empty one) returns when no call of the old handler is running, unless a handler itself sets it.
  virtual void on_message(std::function<void(std::uint32_t from, std::string_view message)> handler) = 0;
  // Sets the handler that the control thread calls once for each loss of a rank, also for an earlier loss
  // that no handler was told of. is_lost(rank) is then true, unless the rank has been restarted already.
  virtual void on_lost(std::function<void(std::uint32_t rank)> handler) = 0;

  // ---- Ranks that come back -----------------------------------------------------------------------
  // A rank whose process was killed may be started again (rank.h). From then on is_lost(rank) is false, and
  // the rank's new incarnation receives and sends messages; late messages to or from its former incarnation
  // are dropped. The restarted rank takes part in no further meeting (collective call): the meetings of other
  // ranks leave it out, and its own calls fail (unsupported).

  // How often the rank was restarted; of rank() itself, 0 in a process that began the run. Any thread may
  // call it.
  [[nodiscard]] virtual std::uint32_t incarnation(std::uint32_t rank) const = 0;
  // Sets the handler that is called each time a rank is restarted, after its loss was reported.
  // is_lost(rank) is then false, unless the rank is lost again. Messages of the new incarnation are
  // delivered after this call.
  virtual void on_back(std::function<void(std::uint32_t rank)> handler) = 0;

  // For how long in ns nothing may be heard of a rank that is not lost.
  [[nodiscard]] virtual Nanos longest_silence() const = 0;

  // Host name of a rank, for error messages.
  [[nodiscard]] virtual std::string host(std::uint32_t rank) const = 0;
};

}  // namespace loch::cluster
