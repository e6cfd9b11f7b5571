// A server: a thread that polls for request messages and executes them one after another.
#include <algorithm>
#include <cstring>

#include "common/base/probe.h"
#include "common/coro/scope.h"
#include "pilaf_em/layout.h"
#include "pilaf_em/store.h"

namespace loch::pilaf {
namespace {

// Models the time that logging takes on a disk with a fixed rate in bytes per second. It starts with a
// megabyte of backlog, so that runs measure the sustained rate.
class ModelledDisk {
 public:
  explicit ModelledDisk(double bytes_a_second) : rate_(bytes_a_second) {}
  // Adds a record's bytes to the backlog, and spins while the backlog exceeds a megabyte.
  [[nodiscard]] coro::Task<void> take(fabric::Worker& worker, std::uint64_t bytes) {
    if (rate_ == 0) co_return;
    const Nanos now = worker.now(), most = span(std::uint64_t{1} << 20);
    done_at_ = done_at_ == 0 ? now + most : std::max(done_at_, now);
    done_at_ += span(bytes);
    const Nanos ready = done_at_ - most;
    if (ready > now) co_await worker.spin_until(ready);
  }

 private:
  [[nodiscard]] Nanos span(std::uint64_t bytes) const {
    return static_cast<Nanos>(static_cast<double>(bytes) / rate_ * 1e9);
  }
  double rate_;
  Nanos done_at_ = 0;
};

class Server {
 public:
  Server(PilafStore& store, fabric::Worker& worker, std::uint32_t index)
      : settings_(store.settings()),
        worker_(worker),
        state_(*store.local(worker.node()).servers.at(index)),
        shard_(state_.shard.get()),
        index_(index),
        membership_(store.local(worker.node()).membership),
        channel_(settings_.messages, store.local(worker.node()).messages, worker, index, state_.memory),
        messages_before_(state_.messages),
        disk_(settings_.log_disk) {}

  [[nodiscard]] coro::Task<void> run() {
    coro::Scope beside(worker_.run_queue());
    if (state_.is_lost) beside.spawn(await_declaration(this));
    for (;;) {
      const rpc::Incoming request = co_await channel_.next();
      if (request.outcome != rpc::Incoming::Outcome::request) break;
      state_.is_changing = true;
      co_await execute(request);
      state_.is_changing = false;
      count_messages();
    }
    co_await channel_.close();
    co_await beside.join();
    count_messages();
  }

 private:
  using Bytes = std::span<const std::byte>;

  void count_messages() {
    const rpc::MessageCounters& before = messages_before_;
    rpc::MessageCounters& all = state_.messages = channel_.counters();
    all.duplicates += before.duplicates;
    all.stale += before.stale;
    all.replies_lost += before.replies_lost;
    all.served += before.served;
  }

  // Runs on a restarted node until the run ends. Waits until the node is declared lost, then lays out an
  // empty shard, and waits again, because a node may be declared lost more than once.
  [[nodiscard]] static coro::Task<void> await_declaration(Server* self) {
    const fabric::WatchWord word{.region = self->membership_,
                                 .offset = std::uint64_t{self->index_} * 8,
                                 .value = static_cast<std::uint64_t>(Member::declared),
                                 .until_equal = true,
                                 .peer = std::nullopt};
    for (;;) {
      const fabric::WatchOutcome seen = co_await self->worker_.watch(word);
      if (seen != fabric::WatchOutcome::ready) co_return;
      if (self->state_.is_lost) self->lay_out();
      self->worker_.store_word(*self->membership_, word.offset, static_cast<std::uint64_t>(Member::serves));
    }
  }

  void lay_out() {
    LOCH_PROBE("pilaf.server.laid-out-anew");
    state_.shard = std::make_unique<Shard>(settings_, *state_.table, *state_.extents);
    shard_ = state_.shard.get();
    state_.is_lost = false;
  }

  [[nodiscard]] coro::Task<void> execute(rpc::Incoming request) {
    const fabric::CpuCosts& costs = worker_.costs();
    co_await worker_.compute(costs.operation());
    if (state_.is_lost && settings_.rules.serves_lost) lay_out();
    if (state_.is_lost) {
      LOCH_PROBE("pilaf.server.lost");
      co_return co_await answer(request, ReplyStatus::lost);
    }
    switch (static_cast<MessageOp>(request.op)) {
      case MessageOp::put:
        co_return co_await put(request, false);
      case MessageOp::insert_if_absent:
        co_return co_await put(request, true);
      case MessageOp::remove:
        co_return co_await remove(request);
      case MessageOp::get:
        co_return co_await get(request);
      case MessageOp::emulated_put:
        co_return co_await answer(request, ReplyStatus::ok);
    }
    co_await refuse(request);
  }

  // Drops a malformed message, which no client of this program sends.
  [[nodiscard]] coro::Task<void> refuse(rpc::Incoming request) {
    ++state_.malformed;
    channel_.drop(request);
    co_return;
  }

  [[nodiscard]] coro::Task<void> answer(rpc::Incoming request, ReplyStatus status) {
    std::byte* const out = co_await channel_.reply_buffer();
    const auto word = static_cast<std::uint32_t>(status);
    const std::uint32_t epoch = shard_ != nullptr ? shard_->root().epoch : 0;
    std::memcpy(out, &word, sizeof word);
    std::memcpy(out + 4, &epoch, sizeof epoch);
    channel_.reply(request, reply_head);
  }

  // Reads the key that follows `head` bytes of lengths; false if the message is too short.
  [[nodiscard]] bool read_key(const rpc::Incoming& request, std::uint32_t head, Bytes* key) const {
    std::uint64_t length = 0;
    if (request.length < head) return false;
    std::memcpy(&length, request.data, sizeof length);
    if (length == 0 || length > settings_.config.key_size || head + length > request.length) return false;
    *key = {request.data + head, static_cast<std::size_t>(length)};
    return true;
  }

  [[nodiscard]] bool read_item(const rpc::Incoming& request, Item* item) const {
    if (!read_key(request, put_head, &item->key)) return false;
    std::uint64_t length = 0;
    std::memcpy(&length, request.data + 8, sizeof length);
    if (put_head + item->key.size() + length != request.length) return false;
    std::memcpy(&item->crc, request.data + 16, sizeof item->crc);
    const auto size = static_cast<std::uint32_t>(length);
    item->value = {item->key.data() + item->key.size(), size, std::min(size, settings_.kept())};
    return true;
  }

  // Executes a PUT or INSERT. The shard cannot change between an INSERT's look-up and its change, because
  // only this worker writes it.
  [[nodiscard]] coro::Task<void> put(rpc::Incoming request, bool only_if_absent) {
    Item item;
    if (!read_item(request, &item)) co_return co_await refuse(request);
    if (only_if_absent) {
      const bool is_there = shard_->find(item.key).has_value();
      co_await charge_work(item.key.size());
      if (is_there) co_return co_await answer(request, ReplyStatus::exists);
    }
    // Known-bad variant that replies before the change; the item is copied, because the reply releases the
    // request's buffer.
    if (!settings_.rules.replies_late) {
      copy_.assign(request.data, request.data + put_head + item.key.size() + item.value.kept);
      item.key = {copy_.data() + put_head, item.key.size()};
      item.value.data = item.key.data() + item.key.size();
      co_await answer(request, ReplyStatus::ok);
      const ReplyStatus ignored = co_await change(item, nullptr);
      static_cast<void>(ignored);
      co_return;
    }
    bool was_reset = false;
    const ReplyStatus status = co_await change(item, &was_reset);
    // The published server resets its connections when its table grows, and so loses the reply to this
    // request (known fault P3, docs/protocols/pilaf.md).
    if (was_reset && !settings_.rules.drops_duplicates) co_return channel_.drop(request);
    co_await answer(request, status);
  }

  // Plans the PUT, growing the table if needed, logs it and applies it; no client can see a change that is
  // not logged.
  [[nodiscard]] coro::Task<ReplyStatus> change(Item item, bool* was_reset) {
    if (is_log_closed()) co_return ReplyStatus::log_closed;
    for (;;) {
      const Planned planned = shard_->plan_put(item);
      co_await charge_work(item.key.size());
      if (planned == Planned::ready) break;
      const bool has_grown = shard_->plan_growth(planned);
      if (!has_grown) {
        LOCH_PROBE("pilaf.server.table-full");
        ++state_.refused;
        co_return ReplyStatus::table_full;
      }
      co_await apply();
      ++state_.resets;
      if (was_reset != nullptr) *was_reset = true;
    }
    if (state_.log != nullptr || settings_.log_disk > 0) {
      co_await worker_.compute(worker_.costs().copy(item.key.size() + item.value.size));
      co_await disk_.take(worker_, Log::modelled_put_bytes(item.key.size(), item.value.size));
    }
    const Bytes value{item.value.data, item.value.size};
    if (state_.log != nullptr && !state_.log->append_put(item.key, value)) {
      shard_->drop_plan();
      co_return ReplyStatus::not_logged;
    }
    co_await apply();
    co_return ReplyStatus::ok;
  }

  // Whether writing the log has failed, after which no change is accepted.
  [[nodiscard]] bool is_log_closed() const { return state_.log != nullptr && !state_.log->is_open(); }

  [[nodiscard]] coro::Task<void> remove(rpc::Incoming request) {
    Bytes key;
    if (!read_key(request, key_head, &key)) co_return co_await refuse(request);
    const ReplyStatus status = co_await take_out(key);
    co_await answer(request, status);
  }

  [[nodiscard]] coro::Task<ReplyStatus> take_out(Bytes key) {
    if (is_log_closed()) co_return ReplyStatus::log_closed;
    const Planned planned = shard_->plan_remove(key);
    co_await charge_work(key.size());
    if (planned != Planned::ready) co_return ReplyStatus::not_found;
    if (settings_.log_disk > 0) co_await disk_.take(worker_, Log::modelled_remove_bytes(key.size()));
    if (state_.log != nullptr && !state_.log->append_remove(key)) {
      shard_->drop_plan();
      co_return ReplyStatus::not_logged;
    }
    co_await apply();
    co_return ReplyStatus::ok;
  }

  // Executes a GET of Pilaf-VO: looks up the key and replies with its value.
  [[nodiscard]] coro::Task<void> get(rpc::Incoming request) {
    Bytes key;
    if (settings_.system != System::pilaf_vo || !read_key(request, key_head, &key))
      co_return co_await refuse(request);
    const std::optional<Bucket> found = shard_->find(key);
    co_await charge_work(key.size());
    if (!found || found->value_length > settings_.config.value_size)
      co_return co_await answer(request, ReplyStatus::not_found);
    const auto length = static_cast<std::uint32_t>(found->value_length);
    co_await worker_.compute(worker_.costs().copy(length));
    std::byte* const out = co_await channel_.reply_buffer();
    const auto status = static_cast<std::uint32_t>(ReplyStatus::ok);
    std::memcpy(out, &status, sizeof status);
    std::memcpy(out + 4, &length, sizeof length);
    std::memcpy(out + reply_head, shard_->extent(found->value_at), std::min(length, settings_.kept()));
    channel_.reply(request, reply_head + length);
  }

  [[nodiscard]] coro::Task<void> charge_work(std::size_t key_bytes) {
    const Shard::Work work = shard_->take_work();
    const fabric::CpuCosts& costs = worker_.costs();
    co_await worker_.compute(work.hashes * costs.hash(key_bytes) + work.compares * costs.compare(key_bytes));
  }

  // Applies the plan step by step, each after its CPU time, so that clients can READ states between the
  // steps.
  [[nodiscard]] coro::Task<void> apply() {
    for (std::size_t i = 0; i < shard_->steps().size(); ++i) {
      const Step& step = shard_->steps()[i];
      shard_->apply(step);
      const Nanos cost = shard_->cost(step, worker_.costs());
      co_await worker_.compute(cost);
      if (settings_.step_pause == 0) continue;
      const auto pause = worker_.rng().below(static_cast<std::uint64_t>(settings_.step_pause) + 1);
      const Nanos until = worker_.now() + static_cast<Nanos>(pause);
      co_await worker_.spin_until(until);
    }
  }

  const Settings& settings_;
  fabric::Worker& worker_;
  ServerState& state_;
  Shard* shard_;  // null for the emulation, and after the node's memory was lost
  std::uint32_t index_;
  fabric::Region* membership_;
  rpc::MessageServer channel_;
  const rpc::MessageCounters messages_before_;  // counted in earlier runs of the fabric
  ModelledDisk disk_;
  std::vector<std::byte> copy_;
};

}  // namespace

coro::Task<void> run_server(PilafStore* store, fabric::Worker* worker, std::uint32_t index) {
  Server server(*store, *worker, index);
  co_await server.run();
}

}  // namespace loch::pilaf
