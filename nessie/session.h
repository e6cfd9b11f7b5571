// One lane of one client worker: a window slot, or the worker's background work. It holds the
// protocol's steps as coroutines; the operations that they add up to are in get.cc, put.cc,
// remove.cc, migrate.cc and scrub.cc. One operation at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"
#include "nessie/members.h"
#include "nessie/store.h"

namespace loch::nessie {

// How one attempt of an operation ended.
enum class Attempt : std::uint8_t {
  ok,
  not_found,
  conflict,    // another operation is in the way: back off, start over
  again,       // a MIGRATE made room: start over at once
  expired,     // older than E
  no_entry,    // no free DTE: back off until one has expired
  table_full,  // MIGRATE found no way within its depth
  link_error,  // a node cannot be reached; nothing was changed, or it was taken back
  ambiguous,   // a CAS ended in an error and its node cannot be reached to ask (H17)
};

class Session {
 public:
  Session(NessieStore& store, fabric::Worker& worker, std::uint32_t lane);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // ---- operations: attempts and back-off (session.cc)
  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats);

  // ---- background and repair (background.cc, scrub.cc, leaks.cc)
  [[nodiscard]] coro::Task<void> run_background(const bool* done);
  [[nodiscard]] coro::Task<void> end_background();
  [[nodiscard]] coro::Task<kv::Repair> scrub(std::vector<kv::ClientId> dead);
  [[nodiscard]] coro::Task<kv::Repair> declare_lost(std::vector<fabric::NodeId> lost);

  // One attempt to move the key in this slot to another of its candidates, as a PUT that finds all
  // its own full does: for tests and for measuring.
  [[nodiscard]] coro::Task<Attempt> migrate_from(cuckoo::Place source, fabric::OpStats* stats);
  // The same for the slot that holds the key: not_found if none does.
  [[nodiscard]] coro::Task<kv::OpResult> migrate_key(kv::Key key, fabric::OpStats* stats);

 private:
  // ---- steps over the fabric (transfer.cc)
  struct WordRead {
    bool ok = false;
    Word word = 0;
  };
  struct Swap {
    enum class Outcome : std::uint8_t { swapped, lost, unknown };
    Outcome outcome = Outcome::lost;
    Word seen = 0;  // what the slot held, if lost
    [[nodiscard]] bool done() const { return outcome == Outcome::swapped; }
  };
  enum class Extent : std::uint8_t { header, full };
  // A DTE, looked at where it is: in this node's data table, or in the landing buffer.
  struct Fetched {
    // False: its node cannot be reached, or its memory is gone: what the word named is not there any more.
    bool ok = false;
    bool is_gone = false;      // its node was declared lost
    bool is_replaced = false;  // another incarnation of the entry is there
    bool is_key = false;       // it is the wanted key's
    bool is_local = false;
    Extent extent = Extent::header;
    EntryMeta meta;
    Word prev = 0;
    fabric::Region* region = nullptr;
    std::uint64_t offset = 0;
  };

  // Posts a READ or CAS whose last 8 bytes land at `landed` of `region`, unsignaled; what comes back waits
  // for their watermark. Any outcome but `ready` is given to settle().
  [[nodiscard]] fabric::Worker::WatchOne post_watched(fabric::WorkRequest& request, fabric::Region* region,
                                                      std::uint64_t landed);
  [[nodiscard]] coro::Task<fabric::WcStatus> settle(fabric::WatchOutcome outcome, fabric::NodeId peer);
  [[nodiscard]] coro::Task<WordRead> read_index(cuckoo::Place place);
  // What the slot proves about a CAS that ended in an error (H17, A1), when it no longer holds `expected`.
  enum class Proof : std::uint8_t {
    none,           // others may write `desired` too: nothing
    desired_stays,  // this operation alone writes `desired`, and nobody changes it: there or not, it is known
    desired_unique,  // this operation alone writes `desired`, but others may have changed it since
    expected_ours,   // `expected` is this operation's own, and nobody else changes it: the CAS took place
  };
  [[nodiscard]] coro::Task<Swap> swap_index(cuckoo::Place place, Word expected, Word desired, Proof proof);
  [[nodiscard]] coro::Task<Swap> settle_swap(cuckoo::Place place, Word expected, Word desired, Proof proof);
  // Empties a slot whose word names memory that was declared lost (members.cc); what the slot holds then.
  [[nodiscard]] coro::Task<WordRead> bury(cuckoo::Place place, Word word);
  [[nodiscard]] coro::Task<void> bury_restored(cuckoo::Place place, Word word);
  [[nodiscard]] coro::Task<Swap> swap_by_cpu(cuckoo::Place place, Word expected, Word desired);
  [[nodiscard]] coro::Task<bool> overwrite_index(cuckoo::Place place, Word word);
  [[nodiscard]] coro::Task<bool> reconnect(fabric::NodeId peer);
  [[nodiscard]] bool look_up_regions(fabric::NodeId peer);
  // Takes an entry out of the index: CAS, or what the mutant unlock-by-write makes of it.
  [[nodiscard]] coro::Task<Swap> take_back(cuckoo::Place place, Word own, Word to, Proof proof);

  // ---- entries (entry.cc)
  [[nodiscard]] coro::Task<Fetched> fetch(Word word, Extent extent);  // any key
  [[nodiscard]] coro::Task<Fetched> fetch_for(Word word, Extent extent, kv::Key key);
  [[nodiscard]] coro::Task<Fetched> read_entry(EntryId id, Extent extent);
  // Does the header belong to the entry that the word names?
  [[nodiscard]] bool is_of(const EntryMeta& meta, Word stored, const EntryId& id) const;
  [[nodiscard]] coro::Task<bool> stamp(Unlinked unlinked);  // false: its node cannot be reached
  [[nodiscard]] coro::Task<void> recycle(EntryId id);
  // Nobody knows whether the entry has left the index: its owner is asked to find out.
  [[nodiscard]] coro::Task<void> suspect(EntryId id);
  [[nodiscard]] coro::Task<void> mark(Unlinked unlinked);
  [[nodiscard]] coro::Task<std::size_t> flush_stamps(std::size_t most);
  void refuse_foreign(Word stored, Fetched* found);
  [[nodiscard]] coro::Task<void> charge_scan();
  void write_entry(const EntryId& id, EntryMeta meta, Word prev, kv::Key key, kv::ValueView value);
  void set_meta(const EntryId& id, const EntryMeta& meta);
  [[nodiscard]] bool is_committed(Word word, const EntryMeta& meta) const {
    return settings_.rules.commit == Commit::cas ? !settings_.format.is_pending(word) : meta.is_valid;
  }

  // ---- GET (get.cc)
  enum class Look : std::uint8_t { other_key, value, pending, conflict, expired, failed };
  [[nodiscard]] coro::Task<Attempt> get_once(kv::Key key);
  [[nodiscard]] coro::Task<Look> look_up(Word word, Nanos read_at, kv::Key key, bool is_previous);
  [[nodiscard]] coro::Task<Look> take_value(Fetched found, Word word, Nanos read_at, kv::Key key);
  [[nodiscard]] std::optional<Look> look_in_cache(Word word, Nanos read_at, kv::Key key);
  void fill_cache(const Fetched& found, Word word, Nanos read_at);

  // ---- PUT and DELETE by tombstone (put.cc, verify.cc)
  static constexpr std::uint32_t no_rank = ~std::uint32_t{0};
  struct Writing {
    kv::Key key;
    kv::ValueView value;
    EntryKind kind = EntryKind::put;
    cuckoo::KeyHash hash;
    std::array<Word, cuckoo::max_functions> seen{};
    std::uint32_t rank = no_rank;  // candidate slot
    bool is_update = false;        // the candidate holds the key
    bool all_were_read = false;    // an inline MIGRATE came after the scan of all slots (H7)
    bool is_written = false;       // the entry holds key and value already
    std::optional<EntryId> entry;  // allocated, and in no slot
    EntryId linked;                // the entry whose word is in the slot
    Word own = 0;                  // that word
    Word replaced = 0;
    bool removed_any = false;        // some committed entry of the key gave way
    bool removed_duplicate = false;  // and it was not in the own slot: a rollback does not bring it back (H1)
    std::array<EntryId, cuckoo::max_functions + 1> staged{};
    std::uint32_t staged_count = 0;
  };
  [[nodiscard]] coro::Task<Attempt> write_once();
  [[nodiscard]] coro::Task<Attempt> choose();
  [[nodiscard]] coro::Task<Attempt> choose_first_fit();
  [[nodiscard]] coro::Task<Attempt> choose_after_full_scan();
  enum class Holder : std::uint8_t { other_key, committed, pending, failed };
  [[nodiscard]] coro::Task<Holder> who_holds(Word word, Nanos read_at);
  [[nodiscard]] coro::Task<Attempt> find_free_slot();
  enum class Reserve : std::uint8_t { free, reserved, failed };
  [[nodiscard]] coro::Task<Reserve> is_reserved(Word word);
  [[nodiscard]] coro::Task<Attempt> make_room();
  [[nodiscard]] coro::Task<Attempt> prepare_entry(bool is_valid);
  [[nodiscard]] coro::Task<void> store_entry(bool is_valid);
  [[nodiscard]] coro::Task<Attempt> link();
  [[nodiscard]] coro::Task<Attempt> remove_duplicates();
  [[nodiscard]] coro::Task<Attempt> verify();
  [[nodiscard]] coro::Task<Attempt> verify_slots(std::uint32_t from, bool skips_own);
  [[nodiscard]] coro::Task<Attempt> roll_back(Attempt why);
  [[nodiscard]] coro::Task<Attempt> end();
  [[nodiscard]] coro::Task<Attempt> commit();
  [[nodiscard]] coro::Task<Attempt> end_tombstone();
  void stage(Word word);
  [[nodiscard]] coro::Task<void> recycle_staged();
  void give_back_entry();

  // ---- DELETE (remove.cc)
  [[nodiscard]] coro::Task<Attempt> remove_by_single_cas();
  [[nodiscard]] coro::Task<Attempt> clear_all_ranks();
  [[nodiscard]] coro::Task<Attempt> confirm_absent();

  // ---- MIGRATE (migrate.cc)
  struct Move {
    EntryId copy;
    cuckoo::KeyHash hash;  // of the moved key; every candidate is known
    cuckoo::Place source, target;
    Word source_word = 0, target_word = 0, copy_word = 0;
  };
  [[nodiscard]] coro::Task<Attempt> migrate(cuckoo::Place source, Word word, std::uint32_t depth);
  [[nodiscard]] coro::Task<Attempt> copy_for_move(Move* move);
  [[nodiscard]] coro::Task<Attempt> find_target(Move* move, std::uint32_t depth);
  [[nodiscard]] coro::Task<Attempt> swing(Move* move);
  [[nodiscard]] coro::Task<Attempt> commit_move(Move* move);

  // ---- what an operation had to leave unfinished (unfinished.cc)
  [[nodiscard]] Unfinished leave(Unfinished::Step step, const cuckoo::Place& place, Word own, Word back,
                                 const EntryId& entry) const;
  void leave_move(const Move& move, Unfinished::Step step);
  [[nodiscard]] coro::Task<void> settle_unfinished();
  [[nodiscard]] coro::Task<bool> settle_one(Unfinished left);
  [[nodiscard]] coro::Task<bool> settle_taking_back(Unfinished left);
  [[nodiscard]] coro::Task<bool> settle_move(Unfinished left);
  [[nodiscard]] coro::Task<bool> finish_move(Unfinished left);

  // ---- entries of which nobody knows whether they are linked (doubts.cc)
  enum class Linked : std::uint8_t { yes, no, unknown };
  [[nodiscard]] coro::Task<void> settle_doubts();
  [[nodiscard]] coro::Task<Linked> find_links(EntryId id);
  [[nodiscard]] coro::Task<Linked> collect_links(EntryId id, cuckoo::KeyHash* hash,
                                                 std::array<Word, cuckoo::max_functions>* words);
  // Is some operation of this worker at work on it?
  [[nodiscard]] bool is_in_hand(const EntryId& id) const;
  [[nodiscard]] bool holds(const EntryId& id) const;

  // ---- members, lost nodes (members.cc)
  void look_at_members();
  [[nodiscard]] bool names_lost_memory(Word word) const;
  [[nodiscard]] bool is_lost(const EntryId& id) const {
    return is_older(id.incarnation, own_.peers[id.node].incarnation);
  }

  // ---- nodes lost with their memory (declare.cc)
  struct MemberTable {
    Word version = 0;
    std::vector<Member> of;  // by node
  };
  [[nodiscard]] coro::Task<void> collect_members(MemberTable* members, std::vector<bool>* is_up,
                                                 std::vector<bool>* is_new);
  [[nodiscard]] coro::Task<bool> read_member_words(fabric::NodeId peer, MemberTable* out);
  [[nodiscard]] coro::Task<bool> tell_members(MemberTable members, std::vector<fabric::NodeId> lost,
                                              std::vector<bool>* is_up);
  [[nodiscard]] coro::Task<bool> write_member_words(fabric::NodeId peer, MemberTable members);
  [[nodiscard]] coro::Task<bool> lay_out_share(std::uint32_t share, MemberTable* members,
                                               std::vector<bool> is_up, std::vector<fabric::NodeId> lost);
  [[nodiscard]] coro::Task<bool> fill_area(Member place);
  [[nodiscard]] coro::Task<bool> bury_all(std::map<std::string, std::uint64_t>* counts);

  // ---- scrub (scrub.cc, leaks.cc)
  using Counts = std::map<std::string, std::uint64_t>;
  struct Finding {
    cuckoo::Place place;
    Word word = 0;
  };
  [[nodiscard]] coro::Task<bool> scan_index(std::uint32_t share, std::vector<Finding>* found);
  [[nodiscard]] coro::Task<std::string> repair(Finding finding);
  [[nodiscard]] coro::Task<std::string> repair_copy(Finding finding, EntryMeta meta);
  [[nodiscard]] coro::Task<std::string> free_reserved(Finding tag);
  [[nodiscard]] coro::Task<bool> write_remote_word(EntryId id, std::uint32_t within, Word word);
  struct Orphan {
    EntryId id;
    friend auto operator<=>(const Orphan& a, const Orphan& b) {
      return std::tie(a.id.node, a.id.index) <=> std::tie(b.id.node, b.id.index);
    }
    friend bool operator==(const Orphan&, const Orphan&) = default;
  };
  struct LeakScan {
    bool is_whole = true;  // false: something could not be read
    std::uint64_t found = 0;
  };
  [[nodiscard]] coro::Task<LeakScan> stamp_leaks();
  [[nodiscard]] coro::Task<bool> find_orphans(std::set<Orphan>* orphans);
  [[nodiscard]] coro::Task<bool> look_at_entry(std::uint32_t node, std::uint32_t index,
                                               std::set<Orphan>* orphans);

  // ---- shared
  [[nodiscard]] bool has(Flaw flaw) const { return settings_.rules.flaw == flaw; }
  [[nodiscard]] bool is_over_age() const {
    return settings_.rules.checks_time && worker_.now() - started_ >= settings_.expiry;
  }
  [[nodiscard]] std::uint64_t word_at(std::uint32_t word) const { return words_base_ + 8ULL * word; }
  [[nodiscard]] bool holds_filter(Word word, cuckoo::KeyHash& hash) const {
    return !settings_.format.is_empty(word) &&
           settings_.format.filter(word) == hash.filter(settings_.filter_bits);
  }
  [[nodiscard]] coro::Task<kv::OpResult> write(kv::Key key, kv::ValueView value, EntryKind kind);
  [[nodiscard]] coro::Task<Attempt> write_attempt();
  [[nodiscard]] kv::OpResult result_of(Attempt attempt, std::uint32_t retries) const;
  // Whether another attempt may end differently.
  [[nodiscard]] static bool is_worth_retrying(Attempt attempt);
  [[nodiscard]] coro::Task<void> back_off(std::uint32_t attempt);
  // The next request may well go to this slot's node.
  void expect(const cuckoo::Place& place) { __builtin_prefetch(&own_.shares[place.node]); }
  void count_local() {
    if (stats_ != nullptr) ++stats_->local_accesses;
  }

  NessieStore& store_;
  const Settings& settings_;
  NodeState& node_;
  WorkerState& own_;
  fabric::Worker& worker_;
  std::uint64_t landing_base_;
  std::uint64_t words_base_;
  fabric::OpStats* stats_ = nullptr;
  Nanos started_ = 0;          // of the current attempt
  kv::ValueView value_;        // the last GET's
  kv::WordCache::Pin pinned_;  // what value_ points into, if it came from the cache
  Writing writing_;
  bool is_repairing_ = false;             // marks at once, whatever nessie.stamping says
  bool is_writing_ = false;               // writing_ is an operation's that is under way
  std::array<cuckoo::Place, 17> path_{};  // sources of the MIGRATEs under way
  std::array<EntryId, 17> copies_{};      // and their copies
  std::uint32_t moves_ = 0;               // so many
  std::vector<std::byte> moved_key_;
  Word left_ = 0;                             // what the last MIGRATE left in its source
  Attempt unreadable_ = Attempt::link_error;  // how an attempt ends whose last fetch() found nothing
};

}  // namespace loch::nessie
