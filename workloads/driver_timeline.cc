// The Driver's time series: the counters that clients record into, the prober (a client that PUTs some keys
// in every bin to see whether they can be written), and the events.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "workloads/driver_client.h"

namespace loch::workloads {
namespace {

constexpr const char* rows_region = "load.timeline";

std::span<std::uint32_t> words(const fabric::Region& region) {
  return {reinterpret_cast<std::uint32_t*>(region.at(0)), region.bytes() / sizeof(std::uint32_t)};
}

}  // namespace

// Makes the counters of the time series. With several processes they lie in registered memory, so that on shm
// another process can still read a dead process's counters.
Result<> Driver::make_rows() {
  if (!shape_) return {};
  if (fabric_.ranks() == 1) {
    rows_.resize(shape_->words());
  } else {
    for (std::uint32_t node = deploy_.server_nodes; node < deploy_.nodes; ++node) {
      const auto id = static_cast<fabric::NodeId>(node);
      if (!fabric_.is_local(id)) continue;
      fabric::RegionSpec spec;
      spec.name = rows_region;
      spec.bytes = shape_->words() * sizeof(std::uint32_t);
      LOCH_ASSIGN(row_regions_[id], fabric_.register_region(id, spec));
    }
  }
  const auto last = static_cast<fabric::NodeId>(deploy_.nodes - 1);
  if (load_.probe_keys > 0 && fabric_.is_local(last))
    probes_.resize(std::size_t{shape_->bins()} * load_.probe_keys);
  return {};
}

std::span<std::uint32_t> Driver::rows_of(fabric::NodeId node) {
  return row_regions_.empty() ? std::span(rows_) : words(*row_regions_.at(node));
}

bool Driver::is_prober(const ClientWorker& own) const {
  return load_.probe_keys > 0 && own.worker->node() + 1U == deploy_.nodes &&
         own.index + 1 == deploy_.client_workers;
}

// The loop of a window slot (place for one operation) of the prober (the client that PUTs some keys in every
// bin): PUTs its share of the sampled keys, one after the other, once per bin of the time series.
coro::Task<void> Driver::probe_main(ClientWorker* own, Slot* slot, std::uint32_t index) {
  fabric::Worker& worker = *own->worker;
  const std::uint64_t records = records_.shape().preloaded;
  const Nanos begin = own->measured_from, end = begin + load_.duration;
  slot->is_measured = false;
  for (Nanos round = begin; round < end && !worker.stopping();) {
    if (worker.now() < round) co_await worker.sleep_until(round);
    for (std::uint64_t key = index; key < load_.probe_keys; key += deploy_.window) {
      if (worker.now() >= end || worker.stopping()) co_return;
      slot->error_run = 0;  // no pause after a failure: the prober's rate of PUTs stays the same
      const Nanos asked = worker.now();
      const std::uint64_t record = key * records / load_.probe_keys;
      co_await operate(own, slot, OpKind::put, record, -1);
      note_probe(key, asked - begin, worker.now() - begin, slot->last == kv::OpStatus::ok);
    }
    while (round <= worker.now()) round += load_.timeline;
  }
}

void Driver::note_probe(std::uint64_t key, Nanos from, Nanos to, bool is_written) {
  const std::uint32_t first = shape_->bin_of(from), last = shape_->bin_of(to);
  const auto mark = [&](std::uint32_t bin, Probe what) {
    probes_[std::size_t{bin} * load_.probe_keys + key] |= what;
  };
  for (std::uint32_t bin = first + 1; bin < last; ++bin) mark(bin, probe_waiting);
  mark(last, is_written ? probe_written : probe_waiting);
}

// The number of keys of the prober (the client that PUTs some keys in every bin) that could not be written,
// in each bin. A PUT that ended with ok in a bin makes its key writable in the bin. Otherwise a PUT that
// failed in the bin, or was under way during the whole bin, makes the key unwritable. Without such a PUT the
// key counts as it did in the previous bin.
std::vector<std::uint32_t> Driver::unwritable() const {
  std::vector<std::uint32_t> by_bin(shape_->bins());
  for (std::uint32_t key = 0; key < load_.probe_keys; ++key) {
    bool is_unwritable = false;
    for (std::uint32_t bin = 0; bin < by_bin.size(); ++bin) {
      const std::uint8_t seen = probes_[std::size_t{bin} * load_.probe_keys + key];
      if (seen != 0) is_unwritable = (seen & probe_written) == 0;
      by_bin[bin] += is_unwritable ? 1 : 0;
    }
  }
  return by_bin;
}

void Driver::note(const fabric::Worker& worker, std::string_view what, fabric::NodeId node) {
  const std::lock_guard lock(events_mutex_);
  events_.push_back({worker.now(), std::string(what), node});
}

std::optional<measure::Timeline> Driver::timeline() {
  if (!shape_) return std::nullopt;
  for (const auto& own : clients_) {
    own->settle();
    own->recorder.flush();
  }
  measure::Timeline all(*shape_);
  if (row_regions_.empty()) all.add(rows_);
  for (const auto& [node, region] : row_regions_) all.add(words(*region));
  if (!probes_.empty()) all.set_unwritable(unwritable());
  const Nanos from = begin_ns_ + load_.warmup;
  if (load_.failures) {
    for (const FailurePlan::Strike& strike : load_.failures->strikes)
      all.add_event({strike.at - from, strike.what, strike.node});
  }
  const std::lock_guard lock(events_mutex_);
  for (measure::TimelineEvent event : events_) {
    event.at_ns -= from;
    all.add_event(std::move(event));
  }
  return all;
}

void Driver::add_lost(fabric::NodeId node, measure::Timeline& into) {
  const fabric::Region* region = fabric_.direct(node, rows_region);
  if (region != nullptr && region->bytes() == shape_->words() * sizeof(std::uint32_t))
    into.add(words(*region));
}

}  // namespace loch::workloads
