// Time series of a run: recording into memory that workers share, merging the series of several processes,
// and JSON for exchange between processes and for results.
#include "common/measure/timeline.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/check.h"

namespace loch::measure {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Upper bounds of numbers in documents from other processes: sums of them do not overflow, and each is exact
// as a double.
constexpr std::uint64_t count_max = std::uint64_t{1} << 40;
constexpr std::int64_t nanos_max = std::int64_t{1} << 56;
constexpr std::size_t events_max = 10'000, name_max = 32;

std::unexpected<Error> unreadable(std::string_view what) {
  return fail(ErrorCode::corrupt, fmt::format("a process's timeline is unreadable: {}", what));
}

std::optional<std::uint64_t> whole(const json& value, std::uint64_t most) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) return std::nullopt;
  return value.get<std::uint64_t>();
}

bool is_word(const std::string& text) {
  return !text.empty() && text.size() <= name_max &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

Result<Timeline::Bin> bin_from(const json& in) {
  if (!in.is_array() || in.size() != 3) return unreadable("a bin is [failed, unwritable, latencies]");
  Timeline::Bin bin;
  const auto failed = whole(in[0], count_max);
  if (!failed) return unreadable("a bin's failed operations");
  bin.failed = *failed;
  if (!in[1].is_null()) {
    const auto keys = whole(in[1], UINT32_MAX);
    if (!keys) return unreadable("a bin's unwritable keys");
    bin.unwritable = static_cast<std::uint32_t>(*keys);
  }
  if (!in[2].is_array() || in[2].size() > timeline_buckets) return unreadable("a bin's latencies");
  for (const json& pair : in[2]) {
    if (!pair.is_array() || pair.size() != 2) return unreadable("a bucket is [number, operations]");
    const auto bucket = whole(pair[0], timeline_buckets - 1), times = whole(pair[1], count_max);
    const bool is_next = bin.latencies.empty() || (bucket && *bucket > bin.latencies.back().first);
    if (!bucket || !times || *times == 0 || !is_next) return unreadable("a bucket's number or operations");
    bin.latencies.emplace_back(static_cast<std::uint32_t>(*bucket), *times);
  }
  return bin;
}

Result<TimelineEvent> event_from(const json& in) {
  if (!in.is_array() || in.size() != 3 || !in[0].is_number_integer() || !in[1].is_string())
    return unreadable("an event is [nanoseconds, name, node]");
  const auto node = whole(in[2], UINT16_MAX);
  const bool is_late = in[0].is_number_unsigned() && in[0].get<std::uint64_t>() > std::uint64_t{nanos_max};
  if (!node || is_late || in[0].get<std::int64_t>() < -nanos_max || !is_word(in[1].get<std::string>()))
    return unreadable("an event's time, name or node");
  return TimelineEvent{in[0].get<std::int64_t>(), in[1].get<std::string>(),
                       static_cast<std::uint32_t>(*node)};
}

}  // namespace

Result<TimelineShape> timeline_shape(std::int64_t width_ns, std::int64_t duration_ns) {
  const bool fits =
      width_ns > 0 && duration_ns > 0 && (duration_ns - 1) / width_ns < std::int64_t{timeline_bins_max};
  if (!fits) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("expected a width above 0 that cuts the window into at most {} bins", timeline_bins_max));
  }
  return TimelineShape{width_ns, duration_ns};
}

double timeline_middle(std::uint32_t bucket) {
  if (bucket < 64) return bucket;
  const std::uint32_t octave = (bucket - 64) / 32 + 1;
  const double low = std::ldexp(32 + (bucket - 64) % 32, static_cast<int>(octave));
  return low + (std::ldexp(1, static_cast<int>(octave)) - 1) / 2;
}

void TimelineRecorder::flush() {
  if (rows_.empty() || end_ns_ == 0) return;
  const auto into = rows_.subspan(bin_ * timeline_row_words, timeline_row_words);
  for (std::size_t i = 0; i < row_.size(); ++i) {
    if (row_[i] == 0) continue;
    std::atomic_ref(into[i]).fetch_add(row_[i], std::memory_order_relaxed);
    row_[i] = 0;
  }
}

void TimelineRecorder::move_to(std::int64_t since_ns) {
  flush();
  bin_ = shape_.bin_of(since_ns);
  // An operation that ends exactly at the end of the measurement window belongs to the last bin.
  end_ns_ = bin_ + 1 == shape_.bins() ? INT64_MAX : (bin_ + std::int64_t{1}) * shape_.width_ns;
}

std::uint64_t Timeline::Bin::completed() const {
  std::uint64_t sum = 0;
  for (const auto& [bucket, times] : latencies) sum += times;
  return sum;
}

std::optional<double> Timeline::Bin::percentile(double percent) const {
  const std::uint64_t all = completed();
  if (all == 0) return std::nullopt;
  const double wanted = std::max(1.0, std::ceil(percent / 100 * static_cast<double>(all)));
  std::uint64_t seen = 0;
  for (const auto& [bucket, times] : latencies) {
    seen += times;
    if (static_cast<double>(seen) >= wanted) return timeline_middle(bucket);
  }
  return timeline_middle(latencies.back().first);
}

void Timeline::add(std::span<std::uint32_t> rows) {
  LOCH_CHECK_EQ(rows.size(), shape_.words());
  Timeline other(shape_);
  for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
    const auto row = rows.subspan(bin * timeline_row_words, timeline_row_words);
    const auto word = [&row](std::size_t i) {
      return std::uint64_t{std::atomic_ref(row[i]).load(std::memory_order_relaxed)};
    };
    other.bins_[bin].failed = word(0);
    for (std::uint32_t bucket = 0; bucket < timeline_buckets; ++bucket) {
      if (const std::uint64_t times = word(1 + bucket); times != 0)
        other.bins_[bin].latencies.emplace_back(bucket, times);
    }
  }
  merge(other);
}

void Timeline::merge(const Timeline& other) {
  LOCH_CHECK(shape_ == other.shape_, "timelines of one run have one shape");
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    Bin& to = bins_[i];
    const Bin& from = other.bins_[i];
    to.failed += from.failed;
    if (from.unwritable) to.unwritable = to.unwritable.value_or(0) + *from.unwritable;
    Bin sum;
    std::size_t a = 0, b = 0;
    while (a < to.latencies.size() || b < from.latencies.size()) {
      const bool is_mine = b == from.latencies.size() ||
                           (a < to.latencies.size() && to.latencies[a].first <= from.latencies[b].first);
      const auto& [bucket, times] = is_mine ? to.latencies[a++] : from.latencies[b++];
      if (!sum.latencies.empty() && sum.latencies.back().first == bucket)
        sum.latencies.back().second += times;
      else
        sum.latencies.emplace_back(bucket, times);
    }
    to.latencies = std::move(sum.latencies);
  }
  events_.insert(events_.end(), other.events_.begin(), other.events_.end());
}

void Timeline::set_unwritable(const std::vector<std::uint32_t>& by_bin) {
  LOCH_CHECK_EQ(by_bin.size(), bins_.size());
  for (std::size_t i = 0; i < bins_.size(); ++i) bins_[i].unwritable = by_bin[i];
}

json to_json(const Timeline& timeline) {
  json bins = json::array(), events = json::array();
  for (const Timeline::Bin& bin : timeline.bins()) {
    bins.push_back({bin.failed, bin.unwritable ? json(*bin.unwritable) : json(nullptr), bin.latencies});
  }
  for (const TimelineEvent& event : timeline.events())
    events.push_back({event.at_ns, event.what, event.node});
  return {{"width_ns", timeline.shape().width_ns},
          {"duration_ns", timeline.shape().duration_ns},
          {"bins", std::move(bins)},
          {"events", std::move(events)}};
}

Result<Timeline> timeline_from_json(const json& in) {
  if (!in.is_object() || in.size() != 4) return unreadable("expected width_ns, duration_ns, bins, events");
  for (const char* key : {"width_ns", "duration_ns", "bins", "events"}) {
    if (!in.contains(key)) return unreadable(fmt::format("{} is missing", key));
  }
  const auto width = whole(in["width_ns"], nanos_max), duration = whole(in["duration_ns"], nanos_max);
  if (!width || !duration) return unreadable("width_ns, duration_ns: expected nanoseconds");
  LOCH_ASSIGN(const TimelineShape shape,
              timeline_shape(static_cast<std::int64_t>(*width), static_cast<std::int64_t>(*duration)));
  if (!in["bins"].is_array() || in["bins"].size() != shape.bins()) return unreadable("bins: not as many");
  if (!in["events"].is_array() || in["events"].size() > events_max) return unreadable("events: too many");
  Timeline timeline(shape);
  for (std::size_t i = 0; i < timeline.bins_.size(); ++i) {
    LOCH_ASSIGN(timeline.bins_[i], bin_from(in["bins"][i]));
  }
  for (const json& each : in["events"]) {
    LOCH_ASSIGN(TimelineEvent event, event_from(each));
    timeline.add_event(std::move(event));
  }
  return timeline;
}

ordered_json bins_json(const Timeline& timeline) {
  const TimelineShape& shape = timeline.shape();
  ordered_json out = ordered_json::array();
  for (std::size_t i = 0; i < timeline.bins().size(); ++i) {
    const Timeline::Bin& bin = timeline.bins()[i];
    const std::int64_t from = static_cast<std::int64_t>(i) * shape.width_ns;
    const double seconds = static_cast<double>(std::min(shape.width_ns, shape.duration_ns - from)) / 1e9;
    const auto us = [&bin](double percent) -> ordered_json {
      const auto ns = bin.percentile(percent);
      return ns ? ordered_json(*ns / 1000) : ordered_json(nullptr);
    };
    ordered_json one;
    one["t_s"] = static_cast<double>(from) / 1e9;
    one["ops_s"] = static_cast<double>(bin.completed()) / seconds;
    one["p50_us"] = us(50);
    one["p99_us"] = us(99);
    one["failed_s"] = static_cast<double>(bin.failed) / seconds;
    one["unwritable_keys"] = bin.unwritable ? ordered_json(*bin.unwritable) : ordered_json(nullptr);
    out.push_back(std::move(one));
  }
  return out;
}

ordered_json events_json(const Timeline& timeline) {
  // Indices of the events in order of their times; simultaneous events keep the order in which they were
  // added.
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < timeline.events().size(); ++i)
    order.emplace_back(timeline.events()[i].at_ns, i);
  std::ranges::sort(order);
  ordered_json out = ordered_json::array();
  for (const auto& [at_ns, i] : order) {
    const TimelineEvent& event = timeline.events()[i];
    out.push_back(
        {{"t_s", static_cast<double>(event.at_ns) / 1e9}, {"event", event.what}, {"node", event.node}});
  }
  return out;
}

}  // namespace loch::measure
