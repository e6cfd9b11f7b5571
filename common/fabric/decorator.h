// Base classes of decorators: a decorator is a Fabric that wraps another Fabric and hands out Workers that
// wrap that fabric's Workers. Every call is forwarded; a decorator overrides only the calls that it changes.
// A wrapped worker shares the inner worker's run queue and costs, and copies its random generator's state
// when it is made.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/fabric/fabric.h"

namespace loch::fabric {

class WrappedWorker : public Worker {
 public:
  explicit WrappedWorker(Worker* inner) : Worker(inner->spec(), 0, &inner->run_queue()), inner_(inner) {
    rng() = inner->rng();
    set_costs(&inner->costs());
    if (inner->is_traced()) set_traced();
  }
  [[nodiscard]] Worker& inner() const { return *inner_; }

  [[nodiscard]] Nanos now() const override { return inner_->now(); }
  [[nodiscard]] Nanos node_clock() const override { return inner_->node_clock(); }
  [[nodiscard]] bool stopping() const override { return inner_->stopping(); }
  [[nodiscard]] const Capabilities& capabilities() const override { return inner_->capabilities(); }
  void post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) override {
    inner_->post_recv(transport, buffer, length, user);
  }
  void store_word(Region& region, std::uint64_t offset, std::uint64_t value) override {
    inner_->store_word(region, offset, value);
  }
  [[nodiscard]] bool connected(NodeId peer) const override { return inner_->connected(peer); }
  [[nodiscard]] std::uint32_t epoch(NodeId peer) const override { return inner_->epoch(peer); }
  void begin_timer(TimerWait* wait) override { inner_->begin_timer(wait); }
  void begin_watch(WatchWait* wait) override { inner_->begin_watch(wait); }
  void begin_receive(ReceiveWait* wait) override { inner_->begin_receive(wait); }
  void begin_reconnect(ReconnectWait* wait) override { inner_->begin_reconnect(wait); }
  void begin_compute(Nanos span, std::coroutine_handle<> waiter) override {
    inner_->begin_compute(span, waiter);
  }

 protected:
  void do_post(WorkRequest* chain) override { inner_->post(chain); }
  void do_post_detached(const WorkRequest& request) override { inner_->post_detached(request); }
  void do_mark(std::string_view what, Nanos start) override { inner_->mark(what, start); }

 private:
  Worker* inner_;
};

// A Fabric that forwards every call to the wrapped one. `Base` is Fabric or an interface that extends it.
template <typename Base = Fabric>
class ForwardingFabric : public Base {
 public:
  explicit ForwardingFabric(std::unique_ptr<Fabric> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Fabric& inner() const { return *inner_; }

  [[nodiscard]] const Capabilities& capabilities() const override { return inner_->capabilities(); }
  [[nodiscard]] std::uint32_t nodes() const override { return inner_->nodes(); }
  [[nodiscard]] bool is_local(NodeId node) const override { return inner_->is_local(node); }
  [[nodiscard]] Result<Region*> register_region(NodeId node, const RegionSpec& spec) override {
    return inner_->register_region(node, spec);
  }
  [[nodiscard]] Result<Worker*> add_worker(const WorkerSpec& spec) override {
    return inner_->add_worker(spec);
  }
  [[nodiscard]] Result<> exchange(Nanos within) override { return inner_->exchange(within); }
  [[nodiscard]] Result<RemoteRegion> lookup(NodeId node, std::string_view region) const override {
    return inner_->lookup(node, region);
  }
  [[nodiscard]] Region* direct(NodeId node, std::string_view region) override {
    return inner_->direct(node, region);
  }
  [[nodiscard]] Result<> barrier(std::string_view what, Nanos within) override {
    return inner_->barrier(what, within);
  }
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& mine, Nanos within) override {
    return inner_->gather(mine, within);
  }
  [[nodiscard]] std::uint32_t rank() const override { return inner_->rank(); }
  [[nodiscard]] std::uint32_t ranks() const override { return inner_->ranks(); }
  void start(Worker& worker, coro::Task<void> main) override { inner_->start(worker, std::move(main)); }
  [[nodiscard]] Result<RunEnd> run() override { return inner_->run(); }
  void interrupt() override { inner_->interrupt(); }
  [[nodiscard]] Nanos clock_error() const override { return inner_->clock_error(); }
  [[nodiscard]] bool has_one_clock() const override { return inner_->has_one_clock(); }
  [[nodiscard]] Result<> fence(NodeId dead) override { return inner_->fence(dead); }
  void on_restart(std::function<void(NodeId)> tell) override { inner_->on_restart(std::move(tell)); }
  [[nodiscard]] std::vector<NodeDevice> devices() const override { return inner_->devices(); }
  void reset_counters() override { inner_->reset_counters(); }
  [[nodiscard]] FabricReport report() const override { return inner_->report(); }

 private:
  std::unique_ptr<Fabric> inner_;
};

// Base of decorators that also wrap Workers. `Wrapper` is the decorator's class derived from WrappedWorker,
// whose objects wrap() makes.
template <typename Wrapper>
class WrappedFabric : public ForwardingFabric<> {
 public:
  using ForwardingFabric::ForwardingFabric;

  [[nodiscard]] Result<Worker*> add_worker(const WorkerSpec& spec) override {
    LOCH_ASSIGN(Worker * worker, inner().add_worker(spec));
    wrappers_.push_back(wrap(worker));
    return wrappers_.back().get();
  }
  void start(Worker& worker, coro::Task<void> main) override {
    for (const auto& wrapper : wrappers_) {
      if (wrapper.get() == &worker) return inner().start(wrapper->inner(), std::move(main));
    }
    LOCH_CHECK(false, "the worker is not one of this fabric's");
  }

 protected:
  [[nodiscard]] virtual std::unique_ptr<Wrapper> wrap(Worker* inner) = 0;
  [[nodiscard]] const std::vector<std::unique_ptr<Wrapper>>& wrappers() const { return wrappers_; }

 private:
  std::vector<std::unique_ptr<Wrapper>> wrappers_;
};

}  // namespace loch::fabric
