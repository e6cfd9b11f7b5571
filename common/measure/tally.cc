// Counts operations, outcomes and latencies of a worker, and merges the counts of several.
#include "common/measure/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/measure/whole_number.h"

namespace loch::measure {
namespace {

using nlohmann::json;

// Calls f(name, counter) for every counter of RequestTotals that is a single number, to merge it or write
// JSON.
template <typename Totals, typename F>
void each_counter(Totals& t, F visit) {
  visit("read", t.read);
  visit("write", t.write);
  visit("cas", t.cas);
  visit("faa", t.faa);
  visit("send", t.send);
  visit("recv", t.recv);
  visit("payload_bytes", t.payload_bytes);
  visit("wire_bytes", t.wire_bytes);
  visit("index_read", t.index_read);
  visit("index_cas", t.index_cas);
  visit("cache_hits", t.cache_hits);
  visit("local_accesses", t.local_accesses);
}

template <typename Totals, typename F>
void each_distribution(Totals& t, F visit) {
  visit("requests", t.requests);
  visit("reads", t.reads);
  visit("index_reads", t.index_reads);
  visit("swaps", t.swaps);
  visit("payload", t.payload);
}

json histogram_json(const Histogram& h) {
  return {{"min", h.min()}, {"max", h.max()}, {"sum", h.sum()}, {"buckets", h.buckets()}};
}

Histogram histogram_from(const json& j) {
  std::vector<std::pair<std::int64_t, std::uint64_t>> buckets;
  for (const json& bucket : j.at("buckets")) {
    buckets.emplace_back(whole<std::int64_t>(bucket.at(0)), whole<std::uint64_t>(bucket.at(1)));
  }
  return Histogram::restore(buckets, whole<std::int64_t>(j.at("min")), whole<std::int64_t>(j.at("max")),
                            j.at("sum"));
}

}  // namespace

void CountDistribution::merge(const CountDistribution& other) {
  for (const auto& [value, n] : other.counts()) add(value, n);
}

std::map<std::uint64_t, std::uint64_t> CountDistribution::counts() const {
  std::map<std::uint64_t, std::uint64_t> all;
  for (const Count& count : large_) all[count.value] = count.times;
  for (std::size_t value = 0; value < small_.size(); ++value) {
    if (small_[value] != 0) all[value] = small_[value];
  }
  return all;
}

void RequestTotals::record(const fabric::OpStats& s, std::uint64_t times) {
  read += s.read * times;
  write += s.write * times;
  cas += s.cas * times;
  faa += s.faa * times;
  send += s.send * times;
  recv += s.recv * times;
  payload_bytes += s.payload_bytes * times;
  wire_bytes += s.wire_bytes * times;
  index_read += s.index_read * times;
  index_cas += s.index_cas * times;
  cache_hits += s.cache_hits * times;
  local_accesses += s.local_accesses * times;
  requests.record(std::uint64_t{s.read} + s.write + s.cas + s.faa + s.send, times);
  reads.record(s.read, times);
  index_reads.record(s.index_read, times);
  swaps.record(s.cas, times);
  payload.record(s.payload_bytes, times);
}

void RequestTotals::merge(const RequestTotals& other) {
  std::vector<std::uint64_t> values;
  each_counter(other, [&](const char*, std::uint64_t value) { values.push_back(value); });
  std::size_t at = 0;
  each_counter(*this, [&](const char*, std::uint64_t& value) { value += values[at++]; });
  requests.merge(other.requests);
  reads.merge(other.reads);
  index_reads.merge(other.index_reads);
  swaps.merge(other.swaps);
  payload.merge(other.payload);
}

std::uint64_t KindTally::total() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t n : by_status) sum += n;
  return sum;
}
std::uint64_t KindTally::completed() const {
  std::uint64_t sum = 0;
  for (std::size_t o = 0; o < op_statuses; ++o)
    sum += is_completed(static_cast<OpStatus>(o)) ? by_status[o] : 0;
  return sum;
}

std::uint64_t Tally::total() const {
  std::uint64_t sum = 0;
  for (const KindTally& kind : kinds) sum += kind.total();
  return sum;
}
std::uint64_t Tally::completed() const {
  std::uint64_t sum = 0;
  for (const KindTally& kind : kinds) sum += kind.completed();
  return sum;
}

void Tally::merge(const Tally& other) {
  for (std::size_t k = 0; k < op_kinds; ++k) {
    kinds[k].latency_ns.merge(other.kinds[k].latency_ns);
    for (std::size_t o = 0; o < op_statuses; ++o) kinds[k].by_status[o] += other.kinds[k].by_status[o];
    kinds[k].requests.merge(other.kinds[k].requests);
  }
  sizes.key_bytes.merge(other.sizes.key_bytes);
  sizes.value_bytes.merge(other.sizes.value_bytes);
  lag_ns.merge(other.lag_ns);
  batches.total += other.batches.total;
  batches.latency_ns.merge(other.batches.latency_ns);
  retries += other.retries;
  verified += other.verified;
  corrupt += other.corrupt;
  unmeasured += other.unmeasured;
  first_half += other.first_half;
  first_ns = std::min(first_ns, other.first_ns);
  last_ns = std::max(last_ns, other.last_ns);
}

json to_json(const Tally& tally) {
  json out = {{"retries", tally.retries},       {"verified", tally.verified}, {"corrupt", tally.corrupt},
              {"unmeasured", tally.unmeasured}, {"first_ns", tally.first_ns}, {"last_ns", tally.last_ns},
              {"first_half", tally.first_half}};
  out["batches"] = {{"total", tally.batches.total}, {"latency_ns", histogram_json(tally.batches.latency_ns)}};
  out["key_bytes"] = histogram_json(tally.sizes.key_bytes);
  out["value_bytes"] = histogram_json(tally.sizes.value_bytes);
  out["lag_ns"] = histogram_json(tally.lag_ns);
  for (const KindTally& kind : tally.kinds) {
    json one = {{"latency_ns", histogram_json(kind.latency_ns)}, {"by_outcome", kind.by_status}};
    each_counter(kind.requests, [&](const char* key, std::uint64_t value) { one["requests"][key] = value; });
    each_distribution(kind.requests, [&](const char* key, const CountDistribution& d) {
      one["distributions"][key] = d.counts();
    });
    out["kinds"].push_back(std::move(one));
  }
  return out;
}

Result<Tally> tally_from_json(const json& in) {
  try {
    Tally tally;
    tally.retries = whole<std::uint64_t>(in.at("retries"));
    tally.verified = whole<std::uint64_t>(in.at("verified"));
    tally.corrupt = whole<std::uint64_t>(in.at("corrupt"));
    tally.unmeasured = whole<std::uint64_t>(in.at("unmeasured"));
    tally.first_ns = whole<Nanos>(in.at("first_ns"));
    tally.last_ns = whole<Nanos>(in.at("last_ns"));
    tally.first_half = whole<std::uint64_t>(in.at("first_half"));
    tally.batches.total = whole<std::uint64_t>(in.at("batches").at("total"));
    tally.batches.latency_ns = histogram_from(in.at("batches").at("latency_ns"));
    tally.sizes.key_bytes = histogram_from(in.at("key_bytes"));
    tally.sizes.value_bytes = histogram_from(in.at("value_bytes"));
    tally.lag_ns = histogram_from(in.at("lag_ns"));
    for (std::size_t k = 0; k < op_kinds; ++k) {
      const json& one = in.at("kinds").at(k);
      KindTally& kind = tally.kinds[k];
      kind.latency_ns = histogram_from(one.at("latency_ns"));
      for (std::size_t o = 0; o < op_statuses; ++o) {
        kind.by_status[o] = whole<std::uint64_t>(one.at("by_outcome").at(o));
      }
      each_counter(kind.requests, [&](const char* key, std::uint64_t& value) {
        value = whole<std::uint64_t>(one.at("requests").at(key));
      });
      each_distribution(kind.requests, [&](const char* key, CountDistribution& d) {
        for (const json& count : one.at("distributions").at(key)) {
          d.add(whole<std::uint64_t>(count.at(0)), whole<std::uint64_t>(count.at(1)));
        }
      });
    }
    return tally;
  } catch (const json::exception& error) {
    return fail(ErrorCode::corrupt, fmt::format("a process's counts are unreadable: {}", error.what()));
  }
}

}  // namespace loch::measure
