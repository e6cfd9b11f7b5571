// Connects queue pairs: in bulk during Fabric::exchange(), and singly during the run, on the connector's own
// thread, when a queue pair is first used, when it has failed, and when another process asks for it. Control
// path.
//
// The end that posts requests sends a `connect` notice; the end that receives them makes or restarts its
// queue pair and answers with `accept`. Both ends draw fresh packet sequence numbers (PSNs). If both nodes
// are in one process, function calls replace the notices.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/health.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/endpoint.h"
#include "common/fabric/verbs/peers.h"
#include "common/fabric/verbs/worker.h"

namespace loch::fabric::verbs {

// For how long in ns a process asks another one for a connection. Longer than a living process may stay
// unheard: once the connection is given up, what UC requests carried counts as sent, and is lost.
constexpr Nanos connect_patience(Nanos longest_silence) { return longest_silence + 10'000'000'000; }

class Connector {
 public:
  Connector(Shared* shared, Peers* peers);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  [[nodiscard]] Result<> open();
  // Registers a worker of this process. Called before Fabric::exchange().
  void add_worker(VerbsWorker* worker);
  [[nodiscard]] bool is_local(NodeId node) const;

  // ---- The exchange, on the set-up thread -----------------------------------------------------
  // Creates the posting end of a queue pair, which is not connected to a receiving end yet.
  [[nodiscard]] Result<LinkRecord> open_sender(VerbsWorker& worker, SendQueue& queue);
  // Makes the receiving end of a queue pair whose posting end is `sender`. The receiving node is one of this
  // process.
  [[nodiscard]] Result<LinkRecord> answer(const LinkRecord& sender);
  // Connects the posting end of a queue pair to `receiver` and moves it to the state ready-to-send.
  [[nodiscard]] Result<> complete(VerbsWorker& worker, SendQueue& queue, const LinkRecord& receiver);

  // Sets the record of this process's node, which is sent to other processes when they restart, or when this
  // process does. Called before start().
  void set_record(NodeRecord record) { record_ = std::move(record); }
  // For a restarted process, after start(): tells every live process that this node is back and waits for
  // their node records. Returns the number of the run that they are in (0: no run yet). Error timed_out names
  // the nodes that did not answer.
  [[nodiscard]] Result<std::uint64_t> return_to_all(Nanos within);

  // ---- During the run ---------------------------------------------------------------------------
  void start();
  void stop();
  // Destroys the receiving ends. They use the workers' receive queues, so this is called before the workers
  // are destroyed.
  void drop_receivers() { receivers_.clear(); }
  // Asks the connector's thread to connect the queue pair. Any worker's thread may call it. The queue is in
  // state `connecting` and has no request outstanding. The connector owns it until it sets the state to
  // `ready` or `refused` and notifies the worker.
  void connect_later(VerbsWorker& worker, SendQueue& queue);
  // Tells every worker of this process that a node was lost or is back. Any thread may call it after
  // Fabric::exchange().
  void notice_workers();
  // Hands a message from another process to the connector's thread. Called on the control plane's thread.
  void deliver(std::uint32_t from, std::string_view message);
  // Cuts the receiving ends of a dead node's queue pairs, in this process and in every live one.
  [[nodiscard]] Result<> fence(NodeId dead, Nanos within);
  // Events before the first run count as the first run's.
  void begin_run(std::uint64_t run);
  void clients_ended(std::uint64_t run);
  // Returns the ranks of the other live processes whose clients have not ended the given run.
  [[nodiscard]] std::vector<std::uint32_t> still_running(std::uint64_t run) const;
  // Returns when the clients of all live processes have ended the run, or after `within` ns.
  void await_others(std::uint64_t run, Nanos within);

  // For how long in ns another process is asked for a connection.
  [[nodiscard]] Nanos patience() const { return patience_; }
  [[nodiscard]] std::map<std::string, double> counters() const;
  // Adds to `health` how often the rail's device reported each asynchronous event that points to a failure.
  void add_symptoms(std::size_t rail, PortHealth& health) const;

 private:
  struct Asking {
    VerbsWorker* worker = nullptr;
    SendQueue* queue = nullptr;
    LinkRecord record;
    Nanos give_up = 0, ask_again = 0;
  };
  struct Receiver {
    QueuePair end;
    // The posting end in the last `connect` notice that was answered. If the notice comes again because the
    // answer was slow, the connector repeats the answer and does not restart the queue pair.
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
  void heed_events(std::size_t rail);
  void heed_event(std::size_t rail, const ibv_async_event& event);
  void look_at_port(std::size_t rail);
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
  // By rail: a completion queue for queue pairs whose send or receive side has no completions.
  std::vector<CompletionQueue> passive_cqs_;
  std::vector<std::vector<VerbsWorker*>> workers_;  // by node, then worker index; null: no such worker
  // The receiving ends of queue pairs. The set-up thread uses them before start(), the connector's thread
  // after it.
  std::map<LinkKey, Receiver> receivers_;
  // The posting ends of queue pairs. The set-up thread uses them before start(), the connector's thread after
  // it.
  std::map<LinkKey, std::pair<VerbsWorker*, SendQueue*>> senders_;
  // Connections that this process asked for and that are not answered yet. Only the connector's thread uses
  // them.
  std::map<LinkKey, Asking> asking_;
  const Nanos patience_;                                // ns after which it gives up
  std::vector<std::atomic<std::uint64_t>> runs_ended_;  // by rank: last run whose clients have ended
  std::atomic<std::uint64_t> run_ = 0;

  int wake_fd_ = -1;
  std::atomic<bool> is_stopping_ = false;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable fenced_, met_, run_ended_;
  std::vector<std::pair<VerbsWorker*, SendQueue*>> wanted_;          // guarded by mutex_
  std::vector<Incoming> incoming_;                                   // guarded by mutex_
  std::vector<std::uint32_t> fenced_by_;                             // guarded by mutex_
  std::uint64_t run_of_others_ = 0;                                  // guarded by mutex_
  std::vector<std::map<std::string_view, std::uint64_t>> symptoms_;  // by rail; guarded by mutex_
  std::map<std::string_view, std::uint64_t> named_events_;           // guarded by mutex_
  // by rail: since when its port is down; used by the connector's thread alone
  std::vector<std::optional<Nanos>> ports_down_since_;
  std::atomic<std::uint64_t> connects_ = 0, refusals_ = 0, reconnects_ = 0, events_ = 0, bad_messages_ = 0;
};

}  // namespace loch::fabric::verbs
