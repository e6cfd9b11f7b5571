// The interface of a protocol: Module describes it, Store is a deployed store, and Client is what a load
// generator drives. A module is a folder; main builds the Registry of all modules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/operation.h"
#include "common/base/result.h"
#include "common/coro/task.h"
#include "common/fabric/fabric.h"
#include "common/kv/options.h"

namespace loch::kv {

// A key. Its bytes outlive the operation. It has DeployConfig::key_size bytes, unless the protocol stores
// keys of different sizes (Sizing::own).
struct Key {
  const std::byte* data = nullptr;
  std::uint32_t size = 0;
};

// A value of `size` bytes of which the first `kept` are present in memory: all of them, or just the stamp
// (value.h) in a simulation that does not store whole values. The bytes outlive the operation.
struct ValueView {
  const std::byte* data = nullptr;
  std::uint32_t size = 0;
  std::uint32_t kept = 0;
};

using loch::Effect;
using loch::OpStatus;

struct OpResult {
  OpStatus status = OpStatus::ok;
  Effect effect = Effect::none;  // whether an unsuccessful PUT, DELETE or INSERT may have taken effect
  std::uint32_t retries = 0;     // number of attempts beyond the first
  ValueView value;               // of a GET that ended ok; valid until the client's next operation
};

// The consistency that a protocol's histories are checked for (common/check).
enum class Consistency : std::uint8_t {
  linearizable,  // each key is linearizable
  lossy_cache,   // a GET may miss a stored key, but never returns a stale value
  none,          // not checked, since the values cannot be verified (Module::unverifiable)
};
[[nodiscard]] std::string_view name(Consistency consistency);

// Name in Store::counters() of the violations that the store's own safety check found (a sequencer checks
// that no number is given out twice). A run with any violation has failed.
constexpr std::string_view violations_counter = "violations";

// A client of a store, with one outstanding operation at a time. A client worker has `window` clients, one
// for each operation that it may have outstanding (window slot); they live until the worker's main coroutine
// has ended. `stats` is never null; an operation adds its work requests and bytes to it.
class Client {
 public:
  virtual ~Client() = default;
  [[nodiscard]] virtual coro::Task<OpResult> get(Key key, fabric::OpStats* stats) = 0;
  [[nodiscard]] virtual coro::Task<OpResult> put(Key key, ValueView value, fabric::OpStats* stats) = 0;
  [[nodiscard]] virtual coro::Task<OpResult> remove(Key key, fabric::OpStats* stats) = 0;
  // INSERT, also called "put if absent": stores the value if the key has none (ok); if the key has a value,
  // changes nothing (exists). Atomic: of several concurrent INSERTs of an absent key, one returns ok. After a
  // failure, OpResult::effect says whether it may have taken effect, as for put(). Protocols without INSERT
  // (DataSupport::insert_if_absent) return an error, without effect.
  [[nodiscard]] virtual coro::Task<OpResult> insert_if_absent(Key key, ValueView value,
                                                              fabric::OpStats* stats);
  // Whether migrate() is implemented.
  [[nodiscard]] virtual bool can_migrate() const { return false; }
  // Tries once to move a key to another of its slots in the table, as an operation that needs the key's slot
  // would do; used for exploring interleavings. Returns ok if the key was moved. The key's value is the same
  // whatever the result.
  [[nodiscard]] virtual coro::Task<OpResult> migrate(Key key, fabric::OpStats* stats);
};

// The ways in which a store may hold keys (or values) of different sizes.
enum class Sizing : std::uint8_t {
  one,  // all keys (or values) must have one size: the design requires it, or the protocol stores nothing
  // each key (or value) is padded (slotted.h) to a slot of the largest size, which work requests transfer
  // whole; the store itself handles slots of this one size
  slots,
  // each key (or value) takes only its own bytes, in memory and on the wire; DeployConfig has the largest
  // size
  own,
};
[[nodiscard]] std::string_view name(Sizing sizing);

// Whether a protocol has an atomic INSERT. If it has, `how` says who decides whether the key is absent ("by
// the server worker that owns the key"); if not, `how` is the reason, as the end of the sentence "no
// insert-if-absent: …".
struct InsertSupport {
  bool is_there = false;
  std::string_view how = "the design decides no PUT by what the key holds";
};

// The data and operations that a protocol supports beyond GET, PUT and DELETE of one size.
struct DataSupport {
  Sizing keys = Sizing::slots, values = Sizing::slots;
  // Whether a client worker may have several GETs outstanding, one in each of its DeployConfig::window slots;
  // a multi-get is a set of such GETs.
  bool multi_get = true;
  InsertSupport insert_if_absent;
};

// The keys and initial values of a run's records, numbered 0 … count-1.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::uint64_t count() const = 0;
  // Bytes of record i's key and of its initial value; `largest` is the size in DeployConfig. They differ from
  // `largest` only for a protocol whose Sizing is `own`.
  [[nodiscard]] virtual std::uint32_t key_size(std::uint64_t i, std::uint32_t largest) const {
    static_cast<void>(i);
    return largest;
  }
  [[nodiscard]] virtual std::uint32_t value_size(std::uint64_t i, std::uint32_t largest) const {
    static_cast<void>(i);
    return largest;
  }
  // Writes record i's key (exactly key_size(i) bytes).
  virtual void key(std::uint64_t i, std::byte* out) const = 0;
  // Writes the first `bytes` bytes, at most value_size(i), of record i's initial value.
  virtual void value(std::uint64_t i, std::byte* out, std::uint32_t bytes) const = 0;
};

// A known-bad variant, which the tests expect the checker to find.
struct Mutant {
  std::string breaks;
  // The first seed, counted from 1, with which `loch fuzz --mutant NAME` finds the variant; measured by `loch
  // fuzz --mutants`. 0: not measured.
  std::uint64_t first_seed = 0;
  // The test that finds the variant, if first_seed is 0 because random runs do not find it in reasonable
  // time.
  std::string found_by = {};
};

// A hole (a known fault) of a variant of a protocol, and the boolean option that closes this hole alone.
struct Fix {
  std::string hole;    // "H2"
  std::string what;    // what goes wrong without the fix
  std::string option;  // such as "nessie.mend-h2"
};

// A hole (a known fault) of the published design: options under which it is the only open hole, and the first
// seed, counted from 1, with which the fuzzer finds it under these options (measured by `loch fuzz --holes`;
// 0: not measured).
struct Hole {
  std::string name;  // "H2"
  std::string what;
  std::map<std::string, std::string> options;
  std::uint64_t first_seed = 0;
};

// A client worker of a node.
struct ClientId {
  fabric::NodeId node = 0;
  std::uint16_t worker = 0;
  friend auto operator<=>(const ClientId&, const ClientId&) = default;
};

// A kind of failure of a deployment. For each kind, a store promises when the affected keys can be read and
// written again. An operation's result is right under every failure.
enum class Loss : std::uint8_t {
  client_killed,  // a client worker died; its node's memory is still there
  server_killed,  // a server worker died; its node's memory is still there
  memory_lost,    // a node crashed: its workers and its memory are lost
  link_down,      // no process died: a link was interrupted for longer than every time-out
};
[[nodiscard]] std::string_view name(Loss loss);
enum class Promise : std::uint8_t {
  serves,  // every key can be read and written again within a bound, without any repair
  // every key can be read and written again, once Store::scrub has repaired what the dead client left
  // half-done
  after_scrub,
  // every key can be read and written again, once Store::declare_lost has ended; keys of the lost node may be
  // absent then
  after_declared,
  // every key can be read and written again, once the node is back and was declared lost; the node's keys may
  // be absent then
  after_return,
  unavailable,  // affected keys may stay unavailable for ever; all others are served
};
[[nodiscard]] std::string_view name(Promise promise);

// The result of Store::scrub or Store::declare_lost.
struct Repair {
  // False: some node could not be reached, so that repairs may be missing. The repairs that were made are
  // valid, and the call may be repeated.
  bool is_complete = true;
  std::map<std::string, std::uint64_t> counts;  // numbers of repairs by their kind
};

// The configuration of a deployment. Numbers "per node" are the same for all nodes that have such workers.
struct DeployConfig {
  std::uint32_t nodes = 1;
  std::uint32_t client_workers = 1;  // per node
  std::uint32_t server_workers = 0;  // per node
  std::uint32_t window = 1;          // outstanding operations per client worker
  std::uint32_t key_size = 128;      // bytes; the largest if keys differ in size
  std::uint32_t value_size = 1024;   // bytes; the largest if values differ in size
  std::uint64_t keys = 0;            // preloaded records of the whole cluster
  // largest number of records, with those inserted during the run; at least `keys`
  std::uint64_t max_keys = 0;
  // bytes of each value that memory really stores; if equal to value_size, all
  std::uint32_t kept_value_bytes = 0;
  std::uint64_t memory_bytes = 0;  // memory of a node, which its regions have to fit in
  std::uint64_t seed = 1;
  // Time in ns during which clients load the store, warm-up included. 0: unknown; options alone then
  // determine the sizes of tables.
  Nanos load_time = 0;
  // 0: every node holds data, has servers and drives load. Otherwise nodes 0 … server_nodes-1 hold all data
  // and have the servers, and the other nodes have the clients: "one server machine, many client machines".
  std::uint32_t server_nodes = 0;

  // Number of nodes that hold data: nodes 0 … serving_nodes()-1.
  [[nodiscard]] std::uint32_t serving_nodes() const { return server_nodes == 0 ? nodes : server_nodes; }
  [[nodiscard]] bool serves(fabric::NodeId node) const { return node < serving_nodes(); }
  // Number of nodes that have clients: nodes server_nodes … nodes-1.
  [[nodiscard]] std::uint32_t driving_nodes() const { return nodes - server_nodes; }
  [[nodiscard]] bool drives(fabric::NodeId node) const { return node >= server_nodes; }
  // The number of a client worker in the cluster: counted from 0, node by node, and on a node by worker
  // index.
  [[nodiscard]] std::uint32_t client_number(fabric::NodeId node, std::uint32_t worker) const {
    return (node - server_nodes) * client_workers + worker;
  }
  // The worker index, on its node, of server worker `i`. Client workers of the node, if any, have the lower
  // indices.
  [[nodiscard]] std::uint16_t server_index(std::uint32_t i) const {
    return static_cast<std::uint16_t>((server_nodes == 0 ? client_workers : 0) + i);
  }
};

class Store {
 public:
  virtual ~Store() = default;
  // Registers the regions of one local node. Called before Fabric::exchange.
  [[nodiscard]] virtual Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) = 0;
  // Looks up the remote regions. Called after Fabric::exchange, before any worker starts.
  [[nodiscard]] virtual Result<> connect(fabric::Fabric& fabric) = 0;
  // Fills the table directly, without requests. Every process calls this function, which fills at least the
  // memory of the process's nodes. The result is deterministic, so that all processes agree on it.
  [[nodiscard]] virtual Result<> preload(fabric::Fabric& fabric, const Dataset& data) = 0;
  // The main coroutine of server worker `index` (0 … server_workers-1) of its node; returns when
  // worker.stopping(). Called only if server_workers > 0.
  [[nodiscard]] virtual coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) = 0;
  [[nodiscard]] virtual std::unique_ptr<Client> client(fabric::Worker& worker, std::uint32_t slot) = 0;
  // Background work of a client worker, such as recycling entries, which runs alongside its clients and ends
  // soon after *done becomes true. By default there is none.
  [[nodiscard]] virtual bool has_background() const { return false; }
  [[nodiscard]] virtual coro::Task<void> background(fabric::Worker& worker, const bool* done);
  // Repairs what dead clients left half-done. Runs on one worker after the fabric has fenced the dead clients
  // (cut them off); other clients continue their operations meanwhile. The memory of the dead clients' nodes
  // has to be readable; for nodes whose memory is lost see declare_lost.
  [[nodiscard]] virtual coro::Task<Repair> scrub(fabric::Worker& worker, std::vector<ClientId> dead);
  // Declares nodes lost together with their memory. Before the call, an operation on a key that they held
  // fails with an error and never reports a miss. After it, such keys may be absent, and every key can be
  // written again. Runs on one worker after the fabric has fenced the nodes. A node that has restarted may be
  // declared lost too, and is then a member again, with the memory that it has after the restart.
  [[nodiscard]] virtual coro::Task<Repair> declare_lost(fabric::Worker& worker,
                                                        std::vector<fabric::NodeId> lost);
  // Called when a crashed node of this process has restarted with zeroed memory: prepares the memory so that
  // the node's workers can be started again, and drops this process's state of the node from before the
  // crash. The data of the node are lost; until the node is declared lost, its servers do not answer requests
  // for keys of which it held the only copy. Error unsupported: the node stays without workers.
  [[nodiscard]] virtual Result<> restart_node(fabric::Fabric& fabric, fabric::NodeId node);
  // Whether operations on `key` need the memory of `node` or, if `server` is given, need this server worker
  // of `node`.
  [[nodiscard]] virtual bool needs(Key key, fabric::NodeId node, std::optional<std::uint32_t> server) const {
    static_cast<void>(key);
    static_cast<void>(node);
    static_cast<void>(server);
    return true;
  }
  // Checks the tables of this process's nodes when no operation is outstanding. Returns one line for each
  // fault (an entry that leaked, a key that is there twice, a word that stays pending). `lost`: nodes whose
  // memory is lost.
  [[nodiscard]] virtual std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const {
    static_cast<void>(lost);
    return {};
  }
  // The transport of the store's requests, as the result names it ("unix socket"); empty: the fabric's verbs.
  [[nodiscard]] virtual std::string transport() const { return {}; }
  // Remarks about this process's nodes for the readers of the result, one line each. Called after the run.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }
  // The protocol's own counters for the result ("migrations": 3), summed over this process's nodes.
  [[nodiscard]] virtual std::map<std::string, double> counters() const { return {}; }
};

// A published design; stateless, owned by the registry.
class Module {
 public:
  virtual ~Module() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;     // the protocol's name, such as "nessie"
  [[nodiscard]] virtual std::string_view summary() const = 0;  // one line, for `loch list protocols`
  [[nodiscard]] virtual std::string_view paper() const = 0;    // the publication
  [[nodiscard]] virtual std::vector<OptionSpec> options() const = 0;
  [[nodiscard]] virtual Consistency consistency(const Options& options) const = 0;
  // The data and operations that the protocol supports; a run that needs others is refused before it starts.
  // By default: keys and values of any size in slots of the largest size; for an emulation that stores
  // nothing, keys and values of one size.
  [[nodiscard]] virtual DataSupport data(const Options& options) const {
    const bool stores = consistency(options) != Consistency::none;
    return stores ? DataSupport{}
                  : DataSupport{.keys = Sizing::one,
                                .values = Sizing::one,
                                .multi_get = false,
                                .insert_if_absent = {.is_there = false, .how = "it stores nothing"}};
  }
  // Whether a DELETE that returns ok promises that the key was present (common/check).
  [[nodiscard]] virtual bool delete_ok_removes(const Options& options) const {
    static_cast<void>(options);
    return true;
  }
  // If consistency() is none: why the values that GETs return cannot be verified, as the end of a sentence
  // that begins with the protocol's name.
  [[nodiscard]] virtual std::string_view unverifiable() const {
    return "is an emulation that stores nothing";
  }
  // Value bytes that one operation moves, for computing goodput.
  [[nodiscard]] virtual std::uint32_t useful_bytes(const DeployConfig& config) const {
    return config.value_size;
  }
  [[nodiscard]] virtual fabric::Requirements requirements(const Options& options) const = 0;
  // What a figure has to say behind the protocol's name when these options choose another transport than the
  // published one: "over RC". Empty for the published transport.
  [[nodiscard]] virtual std::string_view departure(const Options& options) const {
    static_cast<void>(options);
    return {};
  }
  // When the store promises to serve the keys again that this kind of failure affects.
  [[nodiscard]] virtual Promise promise(Loss loss, const Options& options) const {
    static_cast<void>(loss);
    static_cast<void>(options);
    return Promise::unavailable;
  }
  // Name prefixes ("rpc.write.") of the probes (marks at rare branches, common/base/probe.h) in the
  // protocol's code and in the layers that the protocol uses.
  [[nodiscard]] virtual std::vector<std::string> probes() const { return {std::string(name()) + "."}; }
  // Default number of server workers of a node; 0 for a client-driven design.
  [[nodiscard]] virtual std::uint32_t default_servers() const { return 0; }
  // The known-bad variants by name.
  [[nodiscard]] virtual std::map<std::string, Mutant> mutants() const { return {}; }
  // The holes (known faults) of the variant that these options select, each with its fix. The hole behind a
  // finding of the fuzzer is determined by switching on one fix at a time.
  [[nodiscard]] virtual std::vector<Fix> fixes(const Options& options) const {
    static_cast<void>(options);
    return {};
  }
  // The holes (known faults) of the published design, each of which the fuzzer finds when it is the only open
  // one.
  [[nodiscard]] virtual std::vector<Hole> holes() const { return {}; }
  // Draws protocol options for one fuzz run of a small deployment with the configuration `shape`, using `rng`
  // alone: a table so small that keys collide and move, random switches, short periods. Draws only options
  // under which the protocol claims to be correct.
  [[nodiscard]] virtual std::map<std::string, std::string> fuzz_options(Rng& rng,
                                                                        const DeployConfig& shape) const {
    static_cast<void>(rng);
    static_cast<void>(shape);
    return {};
  }
  // Makes a store; refuses impossible combinations with one line that names the flag. `mutant` is empty or
  // the name of one of mutants().
  [[nodiscard]] virtual Result<std::unique_ptr<Store>> deploy(const DeployConfig& config,
                                                              const Options& options,
                                                              std::string_view mutant) const = 0;
};

// Every protocol of this build by name; made in main, without static registration.
using Registry = std::map<std::string, std::unique_ptr<Module>, std::less<>>;

}  // namespace loch::kv
