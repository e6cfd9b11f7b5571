// One execution of a scenario: a deployment of the real protocol on the step fabric, which executes one work
// request at a time, so that the explorer advances the run one move at a time. It is deterministic: the same
// moves lead to the same state.
//
// What identifies a state. A coroutine's local state is a function of its node's past: the answers that the
// node received, and the memory that it could read at each step. A state is therefore identified by the
// memory of all regions, a chain of hashes for each node over the inputs of its steps, the set of operations
// that had returned when each operation began, messages that have arrived and were not yet received, and the
// remaining bounds. Regions with remote atomics are not an input of steps: such words are accessed only
// through the NIC (rule 2 of fabric.h), even by their own node.
#pragma once

#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "app/explore/plan.h"
#include "common/check/history.h"
#include "common/fabric/step/step.h"

namespace loch::explore {

struct Hash {
  std::uint64_t low = 0, high = 0;
  friend auto operator<=>(const Hash&, const Hash&) = default;
};
struct HashOf {
  std::size_t operator()(const Hash& hash) const { return hash.low; }
};
using HashSet = std::unordered_set<Hash, HashOf>;

enum class Kind : std::uint8_t {
  begin,         // the client begins its next operation
  request,       // a posted request is executed
  news,          // a worker notices a changed watched word or a received message
  alarm,         // time passes until the worker's next timer
  unheard,       // a request is executed, but its completion reports a failure
  not_executed,  // a request fails without being executed
  unheard_cut,   // a request is executed, its completion reports a failure, and the first reconnect times out
  not_executed_cut,
  // A deadline passes. Move::request says why: 0: early, although other workers could go on; 1: no other move
  // is possible; 2: all workers only poll, so time passes.
  late,
  kill,  // the client dies; its posted requests are lost
  // the client dies; one of its posted requests is still executed, its other requests are lost
  kill_executed,
  clock,  // every clock advances beyond the expiry period
  tear,   // one half of a posted READ or WRITE is executed; a later move `request` executes the other half
};

struct Move {
  Kind kind = Kind::begin;
  std::uint8_t worker = 0;   // index among the run's workers
  std::uint8_t request = 0;  // index among the worker's posted requests
  std::uint8_t half =
      // For Kind::tear: 4 * the index of the cache line before which the request is torn, + 2 if the upper
      // half is executed first, + 1 if the data is torn when it arrives in the requester's buffer.
      0;
  friend bool operator==(const Move&, const Move&) = default;
  // The move's bit in the masks of sleep sets, which only moves of the kinds begin, request, news and alarm
  // have; 0 for other moves.
  [[nodiscard]] std::uint64_t bit() const {
    if (kind > Kind::alarm || request != 0 || worker >= 16) return 0;
    return std::uint64_t{1} << (worker * 4U + static_cast<std::uint32_t>(kind));
  }
};

// What a move accessed: two moves with disjoint footprints can be made in either order.
struct Footprint {
  bool is_global = false;   // whether the move conflicts with every other move
  bool is_idle = false;     // whether the move was a timer that changed nothing but the time
  bool polls = false;       // whether the background coroutine polled (Run::has_polled)
  bool is_ordered = false;  // true: the move conflicts with every other move, because Bounds::switches is set
  bool begins = false, ends = false, fails = false;
  std::uint8_t node = 0;        // node whose memory the coroutines resumed by the move may read
  std::uint64_t changed = 0;    // bit mask of the regions changed by the coroutines that were resumed
  std::int32_t region = -1;     // index of the region that the request accessed; -1: none
  bool region_is_seen = false;  // whether CPU code of the region's node reads the region
  bool is_write = false;
  std::uint8_t target = 0;  // node that the request was sent to
  bool is_message = false;
  std::uint64_t from = 0, to = 0;  // range of bytes accessed in the region
};
[[nodiscard]] bool are_independent(const Footprint& a, const Footprint& b);

// An operation of a run, with its begin, end and outcome.
struct Operation {
  std::uint32_t client = 0;
  Step step;
  std::uint64_t predecessors = 0;  // bit mask: operations that returned before this one began
  std::uint64_t dead = 0;          // for a SCRUB (repair): bit mask of the clients dead when it began
  std::uint64_t begun = 0;         // index of the move that began the operation
  // Whether a time-out of the operation is no violation: because one of its requests or replies failed, or
  // because its deadline passed while another worker could go on or had an earlier deadline. The flag is not
  // part of the state: if several paths lead to a state, the flag keeps the value from the first path.
  bool is_troubled = false;
  std::optional<std::uint64_t> ended;
  kv::OpStatus status = kv::OpStatus::ok;
  kv::Effect effect = kv::Effect::none;
  std::string value;  // name of the value that the operation wrote or read
};

class Run {
 public:
  explicit Run(const Plan& plan);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // All moves that are possible now. Empty: all clients have ended (is_over()), or are stuck.
  [[nodiscard]] std::vector<Move> moves();
  // Makes a move and returns its footprint; with `text`, stores a description of the move there.
  Footprint apply(const Move& move, std::string* text = nullptr);
  // Whether every client has done its operations or is dead.
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] Hash id();
  // Hash of the history so far: the operations' answers, and which of them returned before which began.
  [[nodiscard]] Hash history_id() const;
  // The history for the checker: each key's initial value, and the operations. Operations under way have the
  // outcome `unknown`; MIGRATEs (moves of a key) and SCRUBs (repairs) are left out.
  [[nodiscard]] std::vector<check::Operation> history() const;
  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }
  // Ends a run whose clients are done: finishes work under way in one fixed order; repairs dead clients'
  // locks and entries from a surviving client, if the protocol promises a repair; reads every key; audits the
  // tables; writes and reads every key again. Returns the violations found, one line each. No move is
  // possible afterwards.
  [[nodiscard]] std::vector<std::string> end();
  // Describes a state in which no move is possible although clients have not ended: they wait for an event
  // that never comes.
  [[nodiscard]] std::string stuck() const;
  // Describes an operation that would wait for ever without its deadline: it timed out although none of its
  // requests failed and the protocol promises service under the failures that happened. Empty if there is no
  // such operation.
  [[nodiscard]] std::string stopped() const;
  // Whether every operation that prepares the initial state has ended; if not, the scenario cannot be
  // explored.
  [[nodiscard]] bool is_prepared() const { return is_prepared_; }
  // Whether the protocol can move keys to another place in the table.
  [[nodiscard]] bool can_migrate() const { return clients_.front()->store->can_migrate(); }

  // Chains of hashes that identify the state. Hashing costs more than the moves themselves, so a run that
  // only repeats moves switches it off, and is given the chains that were recorded when the moves were first
  // made.
  [[nodiscard]] const std::vector<Hash>& chains() const { return chains_; }
  void set_hashing(bool hashes) { hashes_ = hashes; }
  void set_chains(const std::vector<Hash>& chains) { chains_ = chains; }

  // Identifies a timer in this state. Timers in the set of idle alarms are known to change nothing and are
  // not offered as moves.
  [[nodiscard]] Hash alarm_key(const Move& alarm);
  void set_idle_alarms(const HashSet* idle) { idle_ = idle; }

 private:
  struct Client {
    Run* run = nullptr;
    std::uint32_t number = 0;
    std::uint8_t worker = 0;
    std::unique_ptr<kv::Client> store;
    std::coroutine_handle<> gate;  // resumed when the client's next operation begins
    std::uint32_t next = 0;        // index of the next operation in the client's program
    std::optional<std::size_t> running;
    std::vector<std::byte> value;
    fabric::OpStats stats;
    bool is_done = false, is_dead = false;
  };
  struct Gate;
  friend struct Gate;
  static coro::Task<void> run_program(Client* client);
  static coro::Task<void> client_main(Client* client);
  static coro::Task<void> perform(Client* client, std::size_t operation);
  static coro::Task<void> scrub_dead(Client* client, std::size_t operation);
  static coro::Task<void> visit_all(Client* client, std::uint32_t keys, bool writes);
  void visit(Client& survivor, bool writes, std::vector<std::string>& wrong);
  static coro::Task<void> background_main(Run* run, fabric::Worker* worker, const bool* done);
  static coro::Task<void> scrub(Run* run, fabric::Worker* worker, std::vector<kv::ClientId> dead, bool* done);
  static coro::Task<void> repair_main(Run* run, fabric::Worker* worker, std::vector<kv::ClientId> dead,
                                      bool* done);
  [[nodiscard]] bool repair(Client& survivor, const std::vector<kv::ClientId>& dead);
  [[nodiscard]] bool demands_service() const;

  // Whether the worker has no operation running and its background coroutine has polled since any other
  // worker changed memory. The next poll would then see nothing new, so its timer is a move only if no other
  // move is possible.
  [[nodiscard]] bool has_polled(std::uint8_t w);
  [[nodiscard]] Hash& looked_at(std::uint8_t w) { return chains_[chains_.size() - 1 - workers_.size() + w]; }
  [[nodiscard]] bool is_background(std::uint8_t w);

  void set_up();
  void start_workers();
  void prepare();
  void come_to_rest();
  [[nodiscard]] std::vector<Move>::const_iterator forward(const std::vector<Move>& possible,
                                                          std::uint64_t idle);
  std::size_t note_begin(Client& client, const Step& step);
  [[nodiscard]] fabric::Worker& worker(std::uint8_t w) const { return *workers_[w]; }
  [[nodiscard]] Client* client_of(std::uint8_t worker);
  [[nodiscard]] bool may_begin(const Client& client) const;
  [[nodiscard]] std::vector<kv::ClientId> dead_clients() const;
  // Whether the move is a context switch, which Bounds::switches limits.
  [[nodiscard]] bool is_switch(const Move& move);
  void note_switch(const Move& move);
  [[nodiscard]] bool can_go_on(std::uint8_t w);
  void add_worker_moves(std::uint8_t w, std::vector<Move>& into);
  void add_alarms(std::uint8_t w, std::vector<Move>& into, bool polled);
  void note_polls(std::uint8_t w, const Footprint& print);
  void add_failures(std::uint8_t w, std::vector<Move>& into);
  void add_tears(std::uint8_t w, std::vector<Move>& into);
  fabric::step::Tear tear_of(const Move& move);
  // The request that a move executed, as it was before and after its execution; nullopt for moves without a
  // request.
  struct Executed {
    std::optional<fabric::WorkRequest> before, done;
    bool is_rest = false;  // true: this was the second half of a torn request
  };
  [[nodiscard]] Executed make_move(const Move& move, Footprint& print);
  void execute(const Move& move, fabric::step::Fate fate, Footprint& print, Executed& executed);
  void execute_and_fail(const Move& move, Footprint& print, Executed& executed);
  void tear(const Move& move, Footprint& print);
  void let_time_pass(const Move& move);
  // Marks the operations that a failure of this request may disturb: the operation of worker w or, if w is a
  // server, the operations of the clients on the peer node.
  void note_trouble(std::uint8_t w, const fabric::WorkRequest& request);
  void note_trouble_of_all();
  void note_impatience(std::uint8_t w);
  [[nodiscard]] bool is_early(std::uint8_t w);
  void begin(Client& client);
  void note_request(std::uint8_t w, const fabric::WorkRequest& request, Footprint& print) const;
  [[nodiscard]] std::string describe(const Move& move, const fabric::WorkRequest* before,
                                     const fabric::WorkRequest* after, bool is_rest) const;
  [[nodiscard]] std::string place_of(const fabric::WorkRequest& request) const;
  void refresh();
  void mark_node(fabric::NodeId node);
  [[nodiscard]] Hash seen_by(fabric::NodeId node);
  [[nodiscard]] Hash shared_by(fabric::NodeId node);
  void extend_chain(const Move& move, const fabric::WorkRequest* done, fabric::NodeId node);
  void finish_move(const Move& move, const fabric::WorkRequest* done, Footprint& print);
  [[nodiscard]] std::uint64_t by_client(std::uint64_t operations) const;
  // Makes moves in one fixed order until the worker's main coroutine has ended; false if it does not end.
  bool pump_until_done(fabric::Worker& worker);
  bool pump();

  const Plan& plan_;
  std::unique_ptr<fabric::step::StepFabric> fabric_;
  std::unique_ptr<kv::Store> store_;
  std::vector<fabric::Worker*> workers_;  // the scenario's clients first, then servers
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<fabric::step::StepFabric::Memory> memory_;
  std::vector<Hash> memory_hash_;
  // bit mask of regions that other nodes can access, without buffers for READ data
  std::uint64_t shared_ = 0;
  std::vector<bool> is_dirty_;
  // First one hash for each node: a chain over the inputs of the node's steps. Then one for each worker: the
  // memory that its background coroutine saw at its last poll. The last element is the bit mask of the
  // workers that have polled.
  std::vector<Hash> chains_;
  std::vector<Operation> operations_;
  std::uint64_t returned_ = 0;  // bit mask of the operations that have returned
  std::uint64_t moves_made_ = 0;
  bool is_preparing_ = false, is_prepared_ = true;
  std::uint32_t waits_in_vain_ = 0;
  Bounds left_;
  std::optional<std::uint8_t> last_;  // worker of the last move, if Bounds::switches is set
  bool hashes_ = true;
  const HashSet* idle_ = nullptr;
};

}  // namespace loch::explore
