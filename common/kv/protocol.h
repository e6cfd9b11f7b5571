// What a protocol module gives (its Module), what a deployed store is (its Store), and what a load
// generator drives (its Client). A module is a folder; main builds the Registry.
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

// A key; the bytes outlive the operation. All have DeployConfig::key_size bytes, unless the protocol takes
// keys of their own sizes (Sizing::own).
struct Key {
  const std::byte* data = nullptr;
  std::uint32_t size = 0;
};

// A value of `size` bytes of which the first `kept` are present in memory: all of them, or just the
// stamp (value.h) where the simulation elides values. The bytes outlive the operation.
struct ValueView {
  const std::byte* data = nullptr;
  std::uint32_t size = 0;
  std::uint32_t kept = 0;
};

using loch::Effect;
using loch::OpStatus;

struct OpResult {
  OpStatus status = OpStatus::ok;
  Effect effect = Effect::none;  // of a failed PUT, DELETE or INSERT
  std::uint32_t retries = 0;     // attempts beyond the first
  ValueView value;               // GET, ok: valid until the client's next operation
};

// How a protocol's histories are judged (common/check).
enum class Consistency : std::uint8_t {
  linearizable,  // per key
  lossy_cache,   // a GET may miss, but never returns a stale value
  none,          // an emulation that stores nothing
};
[[nodiscard]] std::string_view name(Consistency consistency);

// What Store::counters() calls the failures of the store's own safety check (a sequencer's: no number is
// given out twice). A run that has any has failed.
constexpr std::string_view violations_counter = "violations";

// One outstanding operation at a time. Made for one window slot of one client worker; lives until
// its worker's main has ended. `stats` is filled in, never null.
class Client {
 public:
  virtual ~Client() = default;
  [[nodiscard]] virtual coro::Task<OpResult> get(Key key, fabric::OpStats* stats) = 0;
  [[nodiscard]] virtual coro::Task<OpResult> put(Key key, ValueView value, fabric::OpStats* stats) = 0;
  [[nodiscard]] virtual coro::Task<OpResult> remove(Key key, fabric::OpStats* stats) = 0;
  // INSERT, the field's "put if absent": stores the value where the key has none (ok); where it has one,
  // changes nothing (exists). Atomic: of several at once that find the key absent, one is told ok. What may
  // have happened after a failure is said as by put(). Protocols without it (DataSupport::insert_if_absent)
  // end in error, without effect.
  [[nodiscard]] virtual coro::Task<OpResult> insert_if_absent(Key key, ValueView value,
                                                              fabric::OpStats* stats);
  // Whether migrate() does something.
  [[nodiscard]] virtual bool can_migrate() const { return false; }
  // One attempt to move a key to another of its places in the table, as an operation that needs room would:
  // for exploring. ok: it is somewhere else; what the key holds stays the same, whatever is answered.
  [[nodiscard]] virtual coro::Task<OpResult> migrate(Key key, fabric::OpStats* stats);
};

// How a store holds keys, or values, whose sizes differ.
enum class Sizing : std::uint8_t {
  one,    // not at all: an emulation that stores nothing, or a design of one size
  slots,  // each in a slot of the largest size, all of which travels: slotted.h does it, the store sees one
          // size
  own,    // each by its own bytes, in memory and on the wire; DeployConfig has the largest size
};
[[nodiscard]] std::string_view name(Sizing sizing);

// Whether a protocol has an atomic INSERT, and who decides it; else why not, in a few words that follow "no
// insert-if-absent: ".
struct InsertSupport {
  bool is_there = false;
  std::string_view how = "the design decides no PUT by what the key holds";
};

// Which data and operations a protocol takes beyond GET, PUT and DELETE of one size.
struct DataSupport {
  Sizing keys = Sizing::slots, values = Sizing::slots;
  // A client may have several GETs under way, each on a lane of its own (DeployConfig::window): a multi-get
  // is made of them.
  bool multi_get = true;
  InsertSupport insert_if_absent;
};

// The keys and first values of a run, by record number 0 … count-1.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::uint64_t count() const = 0;
  // Bytes of record i's key and of its initial value, of which `largest` is DeployConfig's. They differ from
  // it only for a protocol whose Sizing is `own`.
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

// A known-bad variant, which the checker must find.
struct Mutant {
  std::string breaks;
  // The first seed by which `loch fuzz --mutant NAME` finds it, counted from 1; `loch fuzz --mutants`
  // measures it anew. 0: not measured.
  std::uint64_t first_seed = 0;
  // Where first_seed is 0, because random runs do not find it in reasonable time: what does.
  std::string found_by = {};
};

// One hole of a variant that has some, and the boolean option that fixes it by itself.
struct Fix {
  std::string hole;    // "H2"
  std::string what;    // what goes wrong without it
  std::string option;  // "nessie.mend-h2"
};

// A hole of the published design by itself: the options that open it, and the first seed by which the fuzzer
// finds it under them, counted from 1 (`loch fuzz --holes` measures it anew; 0: not measured).
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

// What can befall a deployment, and what a store promises of keys that it touches. Whatever happens, an
// operation that was answered was answered rightly: these say when keys can be read and written again.
enum class Loss : std::uint8_t {
  client_killed,  // a client worker died; its node's memory lives on
  server_killed,  // a server worker died; its node's memory lives on
  memory_lost,    // a node crashed: its workers and its memory are gone
  link_down,      // nobody died: a link was out for longer than every time-out
};
[[nodiscard]] std::string_view name(Loss loss);
enum class Promise : std::uint8_t {
  serves,          // every key is readable and writable again by itself, within a bound
  after_scrub,     // … once Store::scrub has repaired what the dead client held
  after_declared,  // … once Store::declare_lost has ended; keys of the lost node may be absent then
  after_return,    // … once the node is back and has been declared lost; its keys may be absent then
  unavailable,     // keys that the loss touches may stay in the way for good; the rest is served
};
[[nodiscard]] std::string_view name(Promise promise);

// What a repair did.
struct Repair {
  // False: something could not be reached; what is there is right, and the call may be made again.
  bool is_complete = true;
  std::map<std::string, std::uint64_t> counts;  // by kind
};

// The shape of a deployment: the same on every node, or on every node of its kind.
struct DeployConfig {
  std::uint32_t nodes = 1;
  std::uint32_t client_workers = 1;    // a node
  std::uint32_t server_workers = 0;    // a node
  std::uint32_t window = 1;            // outstanding operations per client worker
  std::uint32_t key_size = 128;        // bytes; of the largest where they differ
  std::uint32_t value_size = 1024;     // bytes; of the largest where they differ
  std::uint64_t keys = 0;              // preloaded records, whole cluster
  std::uint64_t max_keys = 0;          // with later inserts; >= keys
  std::uint32_t kept_value_bytes = 0;  // of each value that memory keeps; value_size: all
  std::uint64_t memory_bytes = 0;      // a node; what the regions must fit in
  std::uint64_t seed = 1;
  // How long the clients load the store, warm-up included; 0: not known, and tables are as the options say.
  Nanos load_time = 0;
  // 0: every node holds data, has servers and drives load. Else the first so many nodes hold all of the
  // data and have the servers, and the others have the clients: "one server machine, many client machines".
  std::uint32_t server_nodes = 0;

  // Nodes 0 … serving_nodes()-1 hold the data.
  [[nodiscard]] std::uint32_t serving_nodes() const { return server_nodes == 0 ? nodes : server_nodes; }
  [[nodiscard]] bool serves(fabric::NodeId node) const { return node < serving_nodes(); }
  // Nodes server_nodes … nodes-1 have clients.
  [[nodiscard]] std::uint32_t driving_nodes() const { return nodes - server_nodes; }
  [[nodiscard]] bool drives(fabric::NodeId node) const { return node >= server_nodes; }
  // Among the client workers of all nodes, dense from 0, by node and then by worker.
  [[nodiscard]] std::uint32_t client_number(fabric::NodeId node, std::uint32_t worker) const {
    return (node - server_nodes) * client_workers + worker;
  }
  // The fabric's index of server worker `i` of a node that serves: behind its clients.
  [[nodiscard]] std::uint16_t server_index(std::uint32_t i) const {
    return static_cast<std::uint16_t>((server_nodes == 0 ? client_workers : 0) + i);
  }
};

class Store {
 public:
  virtual ~Store() = default;
  // Registers the regions of one local node. Before Fabric::exchange.
  [[nodiscard]] virtual Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) = 0;
  // Looks up remote regions. After Fabric::exchange, before any worker starts.
  [[nodiscard]] virtual Result<> connect(fabric::Fabric& fabric) = 0;
  // Builds the table directly. Every process calls it and fills at least its own nodes' memory; it
  // is deterministic, so that processes agree.
  [[nodiscard]] virtual Result<> preload(fabric::Fabric& fabric, const Dataset& data) = 0;
  // The main of server worker `index` (0 … server_workers-1) of its node; leaves when
  // worker.stopping(). Only called when server_workers > 0.
  [[nodiscard]] virtual coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) = 0;
  [[nodiscard]] virtual std::unique_ptr<Client> client(fabric::Worker& worker, std::uint32_t slot) = 0;
  // Background work of a client worker (recycling, say), spawned alongside its clients; ends soon
  // after *done becomes true. The default has none.
  [[nodiscard]] virtual bool has_background() const { return false; }
  [[nodiscard]] virtual coro::Task<void> background(fabric::Worker& worker, const bool* done);
  // Repairs what dead clients held, on request: "fence, then scrub". Runs on one worker after the fabric has
  // fenced the dead ones and while others go on with their operations. The memory of their nodes can still
  // be read; of nodes that are lost with their memory see declare_lost.
  [[nodiscard]] virtual coro::Task<Repair> scrub(fabric::Worker& worker, std::vector<ClientId> dead);
  // Declares nodes lost together with their memory: until then a value that was there is an error and never
  // a miss; when the call has ended, keys of which they held a part may be absent, and every key can be
  // written again. Runs on one worker after the fabric has fenced the nodes. A node that is back may be
  // declared too, and is then a member again, with what memory it has now.
  [[nodiscard]] virtual coro::Task<Repair> declare_lost(fabric::Worker& worker,
                                                        std::vector<fabric::NodeId> lost);
  // A node of this process that crashed is back with zeroed memory: lays out what it needs for its workers to
  // be started again, and forgets what this process kept of its former incarnation. What its memory held is
  // not there; where it was the only copy, its servers answer nothing of it until the node has been declared
  // lost. unsupported: it stays without workers.
  [[nodiscard]] virtual Result<> restart_node(fabric::Fabric& fabric, fabric::NodeId node);
  // Whether a key's operations need the node: its memory, or, where `server` is given, that server worker.
  [[nodiscard]] virtual bool needs(Key key, fabric::NodeId node, std::optional<std::uint32_t> server) const {
    static_cast<void>(key);
    static_cast<void>(node);
    static_cast<void>(server);
    return true;
  }
  // Looks at the tables of this process's nodes when nothing is under way: what it finds wrong, one line
  // each (an entry that leaked, a key that is there twice, a word that is pending for ever). `lost`: nodes
  // whose memory is void.
  [[nodiscard]] virtual std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const {
    static_cast<void>(lost);
    return {};
  }
  // What its requests travel over, if it is not the fabric's verbs ("unix socket"); for the result.
  [[nodiscard]] virtual std::string transport() const { return {}; }
  // What a reader of the result should know of this process's nodes, one line each. After the run.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }
  // Protocol counters for the result ("migrations": 3), over this process's nodes.
  [[nodiscard]] virtual std::map<std::string, double> counters() const { return {}; }
};

// A published design. Stateless; owned by the registry.
class Module {
 public:
  virtual ~Module() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;     // "nessie"
  [[nodiscard]] virtual std::string_view summary() const = 0;  // one line, for `loch list protocols`
  [[nodiscard]] virtual std::string_view paper() const = 0;    // where it comes from
  [[nodiscard]] virtual std::vector<OptionSpec> options() const = 0;
  [[nodiscard]] virtual Consistency consistency(const Options& options) const = 0;
  // Which data and operations it takes; what it does not take is refused before a run. The default: keys and
  // values of any size in slots of the largest, and of an emulation that stores nothing one size.
  [[nodiscard]] virtual DataSupport data(const Options& options) const {
    const bool stores = consistency(options) != Consistency::none;
    return stores ? DataSupport{}
                  : DataSupport{.keys = Sizing::one,
                                .values = Sizing::one,
                                .multi_get = false,
                                .insert_if_absent = {.is_there = false, .how = "it stores nothing"}};
  }
  // Whether the ok of a DELETE promises that there was something to remove (common/check).
  [[nodiscard]] virtual bool delete_ok_removes(const Options& options) const {
    static_cast<void>(options);
    return true;
  }
  // Consistency::none: why the values that it returns say nothing, as the end of a sentence that begins
  // with its name. What can be checked of it, its store checks itself.
  [[nodiscard]] virtual std::string_view unverifiable() const {
    return "is an emulation that stores nothing";
  }
  // Bytes of value that one operation moves, for the goodput.
  [[nodiscard]] virtual std::uint32_t useful_bytes(const DeployConfig& config) const {
    return config.value_size;
  }
  [[nodiscard]] virtual fabric::Requirements requirements(const Options& options) const = 0;
  // What it promises of the keys that a loss touches.
  [[nodiscard]] virtual Promise promise(Loss loss, const Options& options) const {
    static_cast<void>(loss);
    static_cast<void>(options);
    return Promise::unavailable;
  }
  // Which probes (common/base/probe.h) belong to it, as beginnings of their names: its own and those of the
  // layers that it stands on ("rpc.write.").
  [[nodiscard]] virtual std::vector<std::string> probes() const { return {std::string(name()) + "."}; }
  // Servers a node by default; 0 for a client-driven design.
  [[nodiscard]] virtual std::uint32_t default_servers() const { return 0; }
  // The named known-bad variants, by name.
  [[nodiscard]] virtual std::map<std::string, Mutant> mutants() const { return {}; }
  // The holes of the variant that these options choose: by switching on one fix at a time, the cause
  // of a finding is established.
  [[nodiscard]] virtual std::vector<Fix> fixes(const Options& options) const {
    static_cast<void>(options);
    return {};
  }
  // The holes of the published design that fuzzing shows one at a time.
  [[nodiscard]] virtual std::vector<Hole> holes() const { return {}; }
  // Options for one fuzz run of this small shape, drawn from `rng` alone: a table so small that keys
  // collide and move, switches at random, short periods. Only what the protocol claims to bear.
  [[nodiscard]] virtual std::map<std::string, std::string> fuzz_options(Rng& rng,
                                                                        const DeployConfig& shape) const {
    static_cast<void>(rng);
    static_cast<void>(shape);
    return {};
  }
  // Refuses impossible combinations with one line that names the flag. `mutant` is empty or one
  // of mutants().
  [[nodiscard]] virtual Result<std::unique_ptr<Store>> deploy(const DeployConfig& config,
                                                              const Options& options,
                                                              std::string_view mutant) const = 0;
};

// Every protocol of this build, by name; made in main, no static registration.
using Registry = std::map<std::string, std::unique_ptr<Module>, std::less<>>;

}  // namespace loch::kv
