// Connects queue pairs: in bulk during the exchange, and one at a time during the run, on a thread of
// its own, for first uses, after errors, and for what other processes ask. Control path.
//
// The posting end asks (connect), the receiving end makes or restarts its queue pair and answers
// (accept); both with fresh PSNs. Within a process that is a function call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/endpoint.h"
#include "common/fabric/verbs/peers.h"
#include "common/fabric/verbs/worker.h"

namespace loch::fabric::verbs {

class Connector {
 public:
  Connector(Shared* shared, Peers* peers);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  [[nodiscard]] Result<> open();
  // Workers of this process, before the exchange.
  void add_worker(VerbsWorker* worker);
  [[nodiscard]] bool is_local(NodeId node) const;

  // ---- The exchange, on the set-up thread -----------------------------------------------------
  // The posting end of a queue, ready to be told of the other.
  [[nodiscard]] Result<LinkRecord> open_sender(VerbsWorker& worker, SendQueue& queue);
  // The receiving end of a queue pair to a node of this process.
  [[nodiscard]] Result<LinkRecord> answer(const LinkRecord& sender);
  // The posting end goes up.
  [[nodiscard]] Result<> complete(VerbsWorker& worker, SendQueue& queue, const LinkRecord& receiver);

  // What others are told of this process's node when they, or it, come back. Before start().
  void set_record(NodeRecord record) { record_ = std::move(record); }
  // After start(), in a process that was started again: every live process is told, and known. Returns the
  // run that they are in (0: none yet); timed_out names the nodes that did not answer.
  [[nodiscard]] Result<std::uint64_t> return_to_all(Nanos within);

  // ---- The run ----------------------------------------------------------------------------------
  void start();
  void stop();
  // Before the workers whose receive queues they use are destroyed.
  void drop_receivers() { receivers_.clear(); }
  // Any worker's thread. The queue is `connecting`, has nothing outstanding, and is the connector's
  // until it is `ready` or `refused`; the worker is noticed then.
  void connect_later(VerbsWorker& worker, SendQueue& queue);
  // Any thread, after the exchange: a node was lost, or is back.
  void notice_workers();
  // A message of another process; on the control plane's thread.
  void deliver(std::uint32_t from, std::string_view message);
  // Cuts the receiving ends of a dead node's queue pairs, here and in every live process.
  [[nodiscard]] Result<> fence(NodeId dead, Nanos within);
  void begin_run(std::uint64_t run) { run_ = run; }
  void clients_ended(std::uint64_t run);
  // The processes, neither lost nor this one, whose clients have not ended this run.
  [[nodiscard]] std::vector<std::uint32_t> still_running(std::uint64_t run) const;
  // Returns when there are none of those, or after `within`.
  void await_others(std::uint64_t run, Nanos within);

  [[nodiscard]] std::map<std::string, double> counters() const;

 private:
  struct Asking {
    VerbsWorker* worker = nullptr;
    SendQueue* queue = nullptr;
    LinkRecord record;
    Nanos give_up = 0, ask_again = 0;
  };
  struct Receiver {
    QueuePair end;
    // Asked twice the same, since an answer was slow, it answers the same and stays up.
    std::optional<LinkRecord> asked;
    LinkRecord answer;
  };
  struct Incoming {
    std::uint32_t from = 0;
    Notice notice;
  };

  void body();
  void wake();
  void connect(VerbsWorker& worker, SendQueue& queue);
  void refuse(VerbsWorker& worker, SendQueue& queue, const std::string& why);
  void ask_again();
  void heed(const Incoming& incoming);
  void heed_events();
  void receiving_end_broke(const ibv_qp* qp);
  void reconnect(const LinkKey& key);
  void cut_ends_of(NodeId dead);
  void meet_again(const Notice& notice);
  [[nodiscard]] std::vector<std::uint32_t> unmet() const;
  void send(std::uint32_t to, const Notice& notice);
  [[nodiscard]] VerbsWorker* find_worker(NodeId node, std::uint16_t index) const;
  [[nodiscard]] Result<QueuePair> make_receiver(const LinkKey& key);

  Shared* shared_;
  Peers* peers_;
  NodeRecord record_;
  CompletionQueue passive_cq_;                      // of ends that complete nothing
  std::vector<std::vector<VerbsWorker*>> workers_;  // by node, by index; null where there is none
  std::map<LinkKey, Receiver> receivers_;           // set-up thread, then the connector's
  std::map<LinkKey, std::pair<VerbsWorker*, SendQueue*>> senders_;  // likewise
  std::map<LinkKey, Asking> asking_;                                // the connector's thread
  std::vector<std::atomic<std::uint64_t>> runs_ended_;              // by rank
  std::atomic<std::uint64_t> run_ = 0;

  int wake_fd_ = -1;
  std::atomic<bool> is_stopping_ = false;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable fenced_, met_, run_ended_;
  std::vector<std::pair<VerbsWorker*, SendQueue*>> wanted_;  // under mutex_
  std::vector<Incoming> incoming_;                           // under mutex_
  std::vector<std::uint32_t> fenced_by_;                     // under mutex_
  std::uint64_t run_of_others_ = 0;                          // under mutex_
  std::atomic<std::uint64_t> connects_ = 0, refusals_ = 0, reconnects_ = 0, events_ = 0, bad_messages_ = 0;
};

}  // namespace loch::fabric::verbs
