// One execution of a scenario: a deployment of the real protocol on the step fabric, moved one step at a
// time by whoever explores. Two executions of the same moves are the same.
//
// What identifies a state. A coroutine's local state is a function of what its node has been through: the
// answers that it was given and the memory of its node that it could see with each. So a state is told by
// the memory of all regions, a chain of hashes for each node of what went into its steps, which operations
// had returned when each one was begun, what has arrived and is not taken, and what may still happen.
// Regions that are swapped remotely are left out of what a step sees: such a word is only ever touched
// through the NIC (fabric.h, rule 2), its own node's included.
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
  news,          // a watched word or a message that came is noticed
  alarm,         // time passes until the worker's next timer
  unheard,       // a request is executed, and fails
  not_executed,  // a request fails without having been executed
  unheard_cut,   // … and connecting anew fails the first time
  not_executed_cut,
  late,  // a deadline passes; request 1: because nobody can do anything else; 2: time passes for a worker
         // that polls repeatedly
  kill,  // the client dies; what it posted is lost
  kill_executed,  // … and the request that it posted is executed
  clock,          // every clock passes the expiry period
  tear,           // one half of a posted READ or WRITE is executed; the other by a later `request`
};

struct Move {
  Kind kind = Kind::begin;
  std::uint8_t worker = 0;   // index among the run's workers
  std::uint8_t request = 0;  // index among the worker's posted requests
  std::uint8_t half =
      0;  // tear: 4 * the piece that it is torn before, + 2: the upper half first, + 1: at the landing
  friend bool operator==(const Move&, const Move&) = default;
  // Moves with which a worker goes on, as bits of a word; none for the others.
  [[nodiscard]] std::uint64_t bit() const {
    if (kind > Kind::alarm || request != 0 || worker >= 16) return 0;
    return std::uint64_t{1} << (worker * 4U + static_cast<std::uint32_t>(kind));
  }
};

// The state that a move accessed: two moves that touch nothing in common can be made in either order.
struct Footprint {
  bool is_global = false;   // everything
  bool is_idle = false;     // a timer after which nothing is different but the time
  bool polls = false;       // the background coroutine polls (Run::has_polled)
  bool is_ordered = false;  // its order with every other move matters (Bounds::switches)
  bool begins = false, ends = false, fails = false;
  std::uint8_t node = 0;        // node whose memory the move's CPU code may access
  std::uint64_t changed = 0;    // regions that the step of the CPU changed
  std::int32_t region = -1;     // id of the region that the request touches; -1: none
  bool region_is_seen = false;  // whether the region's node reads the region by CPU
  bool is_write = false;
  std::uint8_t target = 0;  // node
  bool is_message = false;
  std::uint64_t from = 0, to = 0;  // bytes of the region
};
[[nodiscard]] bool are_independent(const Footprint& a, const Footprint& b);

// An operation of the run, with its interval and outcome.
struct Operation {
  std::uint32_t client = 0;
  Step step;
  std::uint64_t predecessors = 0;  // operations, by number, that had returned when it was begun
  std::uint64_t dead = 0;          // for a SCRUB: bit mask of the clients that were dead when it began
  std::uint64_t begun = 0;         // move
  // A request or reply of its own failed while it ran, or its time passed while somebody could go on, or a
  // deadline before another one that comes sooner: it may end without an answer. No part of the state: of two
  // ways to one state the first counts.
  bool is_troubled = false;
  std::optional<std::uint64_t> ended;
  kv::OpStatus status = kv::OpStatus::ok;
  kv::Effect effect = kv::Effect::none;
  std::string value;  // the value that the operation put or got
};

class Run {
 public:
  explicit Run(const Plan& plan);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Everything that may happen now; empty: all clients have ended, or nobody can go on (is_over()).
  [[nodiscard]] std::vector<Move> moves();
  // Makes a move. With `text`, describes it there.
  Footprint apply(const Move& move, std::string* text = nullptr);
  // All clients have done their operations, or are dead.
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] Hash id();
  // Of the operations so far: what they were told, and which of them had returned before which.
  [[nodiscard]] Hash history_id() const;
  // For the checker: the start of each key, and the operations. Those that are under way have an unknown
  // outcome. A MIGRATE is none.
  [[nodiscard]] std::vector<check::Operation> history() const;
  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }
  // Ends the run after the last move: what is still to do is done in one fixed order; if clients died, a
  // survivor repairs what they held, where the protocol promises that; each key is read; the tables are
  // looked at; each key is written and read again. Returns what is wrong beside the history. The run cannot
  // go on afterwards.
  [[nodiscard]] std::vector<std::string> end();
  // Clients that wait for something that never comes: nobody can do anything.
  [[nodiscard]] std::string stuck() const;
  // An operation that ended because it gave up waiting, although nothing of its own failed and the protocol
  // serves in what did fail: without its deadline it would not end. Empty: there is none.
  [[nodiscard]] std::string stopped() const;
  // Whether the protocol moves keys.
  // False: an operation before the exploration does not end, and nothing can be said of what comes after it.
  [[nodiscard]] bool is_prepared() const { return is_prepared_; }
  [[nodiscard]] bool can_migrate() const { return clients_.front()->store->can_migrate(); }

  // Hashes cost more than the steps: a run that only repeats moves leaves them out, and takes the chains
  // from where they were noted.
  [[nodiscard]] const std::vector<Hash>& chains() const { return chains_; }
  void set_hashing(bool hashes) { hashes_ = hashes; }
  void set_chains(const std::vector<Hash>& chains) { chains_ = chains; }

  // A timer of a worker in this state changed nothing: it is not a move.
  [[nodiscard]] Hash alarm_key(const Move& alarm);
  void set_idle_alarms(const HashSet* idle) { idle_ = idle; }

 private:
  struct Client {
    Run* run = nullptr;
    std::uint32_t number = 0;
    std::uint8_t worker = 0;
    std::unique_ptr<kv::Client> store;
    std::coroutine_handle<> gate;  // resumed when the client's next operation begins
    std::uint32_t next = 0;        // operation of its program
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

  // A worker without an operation whose background has looked since anybody else changed memory, and has left
  // its own as it was: what it would see is what it has seen, and its next timer is no move unless nobody
  // else has one.
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
  // Bounds::switches.
  [[nodiscard]] bool is_switch(const Move& move);
  void note_switch(const Move& move);
  [[nodiscard]] bool can_go_on(std::uint8_t w);
  void add_worker_moves(std::uint8_t w, std::vector<Move>& into);
  void add_alarms(std::uint8_t w, std::vector<Move>& into, bool polled);
  void note_polls(std::uint8_t w, const Footprint& print);
  void add_failures(std::uint8_t w, std::vector<Move>& into);
  void add_tears(std::uint8_t w, std::vector<Move>& into);
  fabric::step::Tear tear_of(const Move& move);
  // A request that a move touched, as it was posted and as it was executed; neither of a move without one.
  struct Executed {
    std::optional<fabric::WorkRequest> before, done;
    bool is_rest = false;  // the other half of a torn one
  };
  [[nodiscard]] Executed make_move(const Move& move, Footprint& print);
  void execute(const Move& move, fabric::step::Fate fate, Footprint& print, Executed& executed);
  void execute_and_fail(const Move& move, Footprint& print, Executed& executed);
  void tear(const Move& move, Footprint& print);
  void let_time_pass(const Move& move);
  // Notes on which operation a failure falls: the worker's, or its whose peer's message it was.
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
  // Runs everybody in one fixed order until the worker's main has ended. False: it does not.
  bool pump_until_done(fabric::Worker& worker);
  bool pump();

  const Plan& plan_;
  std::unique_ptr<fabric::step::StepFabric> fabric_;
  std::unique_ptr<kv::Store> store_;
  std::vector<fabric::Worker*> workers_;  // clients of the scenario first, then servers
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<fabric::step::StepFabric::Memory> memory_;
  std::vector<Hash> memory_hash_;
  std::uint64_t shared_ = 0;  // regions that another node can reach: where READs land is nobody else's
  std::vector<bool> is_dirty_;
  std::vector<Hash> chains_;  // by node; then, for has_polled(), by worker its memory then; and who, as bits
  std::vector<Operation> operations_;
  std::uint64_t returned_ = 0;  // a bit for each operation that has returned
  std::uint64_t moves_made_ = 0;
  bool is_preparing_ = false, is_prepared_ = true;
  std::uint32_t waits_in_vain_ = 0;
  Bounds left_;
  std::optional<std::uint8_t> last_;  // worker that moved last, where left_.switches counts
  bool hashes_ = true;
  const HashSet* idle_ = nullptr;
};

}  // namespace loch::explore
