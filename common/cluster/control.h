// What the processes of one launch agree on outside the data path: endpoints, barriers, results, and
// who is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace loch::cluster {

// All calls come from one thread (the set-up thread), except is_lost, incarnation and send, which any thread
// may call. A meeting (all_gather, gather, barrier) is held by every live rank in the same order with the
// same `what`; ranks that are lost, before or during it, are left out and nobody waits for them. When
// a live rank has not come after `within`, the meeting fails in each rank that waits, with an error
// (timed_out) that names the missing ranks and their hosts; when two ranks come to different meetings,
// it fails (internal) and names both; when a rank has ended without coming, it fails at once
// (unavailable). After an error the next meeting may still be held.
class Control {
 public:
  virtual ~Control() = default;
  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const = 0;

  // Every live rank gives a text and gets all of them, by rank; a lost rank's is empty. That of a rank
  // that dies in the middle may reach some and not others.
  [[nodiscard]] virtual Result<std::vector<std::string>> all_gather(std::string_view what,
                                                                    const std::string& mine,
                                                                    Nanos within) = 0;
  // As all_gather, but only rank 0 gets the texts; the others get an empty vector, as soon as theirs
  // is on its way, or at once when rank 0 is lost.
  [[nodiscard]] virtual Result<std::vector<std::string>> gather(std::string_view what,
                                                                const std::string& mine, Nanos within) = 0;
  // A barrier: returns when every live rank has called it.
  [[nodiscard]] virtual Result<> barrier(std::string_view what, Nanos within) = 0;

  // The rank's process, or its machine, died: certainly silent until it is back. A relaxed load.
  [[nodiscard]] virtual bool is_lost(std::uint32_t rank) const = 0;

  // One message to another rank, in order per pair; lost silently when that rank is. Does not wait.
  virtual void send(std::uint32_t to, std::string_view message) = 0;
  // The handler is called on the control thread for each message of send(). Set it before the first
  // barrier returns: messages that come before it is set wait for it. Setting a handler (an empty one
  // too) returns when no call of the old one is running, unless it is done by a handler.
  virtual void on_message(std::function<void(std::uint32_t from, std::string_view message)> handler) = 0;
  // The handler is called on the control thread once for each rank that is lost, those included that
  // were lost before it was set. is_lost(rank) is true by then, unless the rank is back already.
  virtual void on_lost(std::function<void(std::uint32_t rank)> handler) = 0;

  // ---- Ranks that come back -----------------------------------------------------------------------
  // A rank whose process was killed may be started again (rank.h). From then on is_lost(rank) is false,
  // and messages go to its new incarnation and come from it; those between anyone and the former incarnation
  // that are late are dropped. It takes part in no meeting any more: the others' leave it out, its own calls
  // fail (unsupported).

  // How often the rank was started again; of rank() itself: 0 in a process that began the run. Any thread.
  [[nodiscard]] virtual std::uint32_t incarnation(std::uint32_t rank) const = 0;
  // As on_lost, once for each time that a rank comes back, after its loss; is_lost(rank) is false by
  // then, unless it is lost anew. What its new incarnation sends is heard after this.
  virtual void on_back(std::function<void(std::uint32_t rank)> handler) = 0;

  // Host name of a rank, for messages.
  [[nodiscard]] virtual std::string host(std::uint32_t rank) const = 0;
};

}  // namespace loch::cluster
