// Makes a Trace from a file's lines: record numbers of its keys, sizes, arrival times.
#include "workloads/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/rng.h"

namespace loch::workloads {
namespace {

constexpr std::uint64_t least_key_bytes = 8;  // shorter keys of a trace are lengthened to this
// Largest time span in seconds, 31 years, so that nanoseconds do not overflow.
constexpr std::uint64_t longest_s = 1'000'000'000;
constexpr std::size_t line_most = std::size_t{16} << 20;

std::uint64_t hash_of(std::string_view key) {
  std::uint64_t hash = mix64(key.size());
  while (!key.empty()) {
    std::uint64_t word = 0;
    const std::size_t bytes = std::min(key.size(), sizeof word);
    std::memcpy(&word, key.data(), bytes);
    hash = mix64(hash ^ word);
    key.remove_prefix(bytes);
  }
  return hash;
}

bool are_alike(const std::vector<std::uint32_t>& sizes) {
  return std::ranges::all_of(sizes, [&](std::uint32_t each) { return each == sizes.front(); });
}

}  // namespace

const std::vector<std::string>& trace_preload_names() {
  static const std::vector<std::string> names = {"found", "all", "none"};
  return names;
}

TraceBuilder::TraceBuilder(TraceRequest request)
    : request_(std::move(request)), parser_(request_.format), trace_(new Trace) {}

std::unexpected<Error> TraceBuilder::bad(std::string_view what) const {
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}:{}: {}", request_.file, trace_->counts_.lines, what));
}

Result<> TraceBuilder::add(std::string_view text) {
  TraceCounts& counts = trace_->counts_;
  ++counts.lines;
  auto parsed = parser_.parse(text);
  if (!parsed) return bad(parsed.error().message);
  if (!*parsed) return {};
  const TraceLine& line = **parsed;
  LOCH_TRY(note_time(line));
  const std::string name(line.operation->name);
  if (line.operation->action == TraceAction::skip) {
    counts.skipped[name] += line.times;
    return {};
  }
  if (request_.operations > 0 && trace_->events_.size() >= request_.operations) {
    is_full_ = counts.is_cut = true;
    return {};
  }
  LOCH_TRY(check_sizes(line));
  const std::uint32_t record = record_of(line);
  const TraceAction action = line.operation->action;
  const bool is_simplified = line.operation->is_simplified ||
                             (action == TraceAction::insert_if_absent && !request_.has_insert_if_absent);
  for (std::uint64_t time = 0; time < line.times && !is_full_; ++time) {
    if (action == TraceAction::get || action == TraceAction::read_modify_write)
      LOCH_TRY(issue(OpKind::get, record, 0));
    if (action == TraceAction::put || action == TraceAction::read_modify_write)
      LOCH_TRY(issue(OpKind::put, record, size_of_put(line, keys_[record])));
    if (action == TraceAction::insert_if_absent) {
      const OpKind kind = is_simplified ? OpKind::put : OpKind::insert_if_absent;
      LOCH_TRY(issue(kind, record, size_of_put(line, keys_[record])));
    }
    if (action == TraceAction::remove) LOCH_TRY(issue(OpKind::remove, record, 0));
    if (is_simplified && !is_full_) ++counts.simplified[name];
  }
  return {};
}

Result<> TraceBuilder::note_time(const TraceLine& line) {
  if (!line.second) return {};
  if (!trace_->has_times_) first_second_ = second_ = *line.second;
  trace_->has_times_ = true;
  if (*line.second < second_)
    return bad(fmt::format("expected a time of {} s or later, as in the line before, and not {} s", second_,
                           *line.second));
  if (*line.second - first_second_ > longest_s)
    return bad(fmt::format("expected a time of at most {} s after the first, and not {} s", longest_s,
                           *line.second - first_second_));
  if (*line.second == second_) return {};
  spread_second();
  second_ = *line.second;
  return {};
}

Result<> TraceBuilder::check_sizes(const TraceLine& line) const {
  if (request_.is_one_size) return {};
  const auto check = [&](const char* what, std::uint64_t bytes, const std::optional<std::uint32_t>& most,
                         const char* flag) -> Result<> {
    if (most && bytes > *most)
      return bad(fmt::format("a {} of {} bytes, above --{} {}", what, bytes, flag, *most));
    if (bytes > Trace::most_bytes)
      return bad(fmt::format("a {} of {} bytes; at most {}", what, bytes, Trace::most_bytes));
    return {};
  };
  LOCH_TRY(check("key", line.key_bytes, request_.key_most, "key-size"));
  return check("value", line.value_bytes.value_or(0), request_.value_most, "value-size");
}

std::uint32_t TraceBuilder::record_of(const TraceLine& line) {
  const auto [place, is_new] =
      by_hash_.try_emplace(hash_of(line.key), static_cast<std::uint32_t>(keys_.size()));
  if (is_new) {
    keys_.push_back({.key_bytes = static_cast<std::uint32_t>(line.key_bytes),
                     .first_value = 0,
                     .value = 0,
                     .is_found = line.operation->finds_key});
  }
  Key& key = keys_[place->second];
  if (key.first_value == 0 && !line.operation->is_partial)
    key.first_value = static_cast<std::uint32_t>(line.value_bytes.value_or(0));
  return place->second;
}

std::uint32_t TraceBuilder::size_of_put(const TraceLine& line, Key& key) {
  auto bytes = static_cast<std::uint32_t>(line.value_bytes.value_or(0));
  if (line.operation->is_partial) {
    const std::uint32_t known = key.value > 0 ? key.value : key.first_value;
    bytes = std::max(bytes, known > 0 ? known : request_.unknown_value);
  }
  if (bytes == 0) ++trace_->counts_.empty_values;
  return key.value = std::max<std::uint32_t>(bytes, 1);
}

Result<> TraceBuilder::issue(OpKind kind, std::uint32_t record, std::uint32_t value_bytes) {
  if (request_.operations > 0 && trace_->events_.size() == request_.operations) {
    is_full_ = trace_->counts_.is_cut = true;
    return {};
  }
  if (trace_->events_.size() == Trace::most_operations)
    return bad(
        fmt::format("more than {} operations; --operations N replays the first N", Trace::most_operations));
  TraceEvent event;
  event.record = record;
  event.kind_bits = static_cast<std::uint32_t>(kind);
  event.value_bytes = value_bytes;
  trace_->events_.push_back(event);
  return {};
}

// The trace's times have a resolution of a second: spreads the operations of one second evenly over it.
void TraceBuilder::spread_second() {
  constexpr std::uint64_t second_ns = 1'000'000'000;
  std::vector<TraceEvent>& events = trace_->events_;
  const std::size_t count = events.size() - second_begins_;
  const std::uint64_t start = (second_ - first_second_) * second_ns;
  for (std::size_t i = 0; i < count; ++i)
    events[second_begins_ + i].at = static_cast<Nanos>(start + i * second_ns / count);
  second_begins_ = events.size();
  trace_->span_ = static_cast<Nanos>(start + second_ns);
}

// Numbers the records, preloaded ones first. Returns the record number of each key, in the order in which the
// keys first occur in the file.
std::vector<std::uint32_t> TraceBuilder::number_records() {
  const auto is_preloaded = [&](const Key& key) {
    return request_.preload == TracePreload::all || (request_.preload == TracePreload::found && key.is_found);
  };
  std::vector<std::uint32_t> number(keys_.size());
  std::uint32_t next = 0;
  for (const bool wanted : {true, false}) {
    for (std::size_t i = 0; i < keys_.size(); ++i)
      if (is_preloaded(keys_[i]) == wanted) number[i] = next++;
    if (wanted) trace_->preloaded_ = next;
  }
  trace_->keys_ = next;
  return number;
}

void TraceBuilder::set_sizes(const std::vector<std::uint32_t>& number) {
  TraceCounts& counts = trace_->counts_;
  auto table = std::make_shared<RecordTable>();
  if (request_.is_one_size) {
    trace_->key_most_ = *request_.key_most;
    table->value_least = table->value_most = *request_.value_most;
    for (TraceEvent& event : trace_->events_)
      if (brings_value(event.kind())) event.value_bytes = *request_.value_most;
    trace_->sizes_ = std::move(table);
    return;
  }
  table->key_bytes.resize(keys_.size());
  table->value_bytes.resize(keys_.size());
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const Key& key = keys_[i];
    counts.short_keys += key.key_bytes < least_key_bytes ? 1 : 0;
    counts.unknown_values += key.first_value == 0 && number[i] < trace_->preloaded_ ? 1 : 0;
    table->key_bytes[number[i]] = std::max(key.key_bytes, static_cast<std::uint32_t>(least_key_bytes));
    table->value_bytes[number[i]] = key.first_value > 0 ? key.first_value : request_.unknown_value;
  }
  trace_->key_most_ = *std::ranges::max_element(table->key_bytes);
  table->value_least = ~std::uint32_t{0};
  const auto note = [&](std::uint32_t bytes) {
    table->value_least = std::min(table->value_least, bytes);
    table->value_most = std::max(table->value_most, bytes);
  };
  for (std::uint64_t record = 0; record < trace_->preloaded_; ++record) note(table->value_bytes[record]);
  for (const TraceEvent& event : trace_->events_)
    if (brings_value(event.kind())) note(event.value_bytes);
  // if no line tells a value's size, assume the size of unknown values
  if (table->value_most == 0) note(request_.unknown_value);
  if (are_alike(table->key_bytes)) table->key_bytes.clear();
  if (table->value_least == table->value_most) table->value_bytes.clear();
  trace_->sizes_ = std::move(table);
}

Result<std::shared_ptr<const Trace>> TraceBuilder::finish() {
  const TraceCounts& counts = trace_->counts_;
  const std::string& format = trace_format_names()[static_cast<std::size_t>(request_.format)];
  if (counts.lines == 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: empty; expected the lines of a {} trace", request_.file, format));
  if (trace_->events_.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: no GET, PUT or DELETE in {} lines of a {} trace", request_.file,
                            counts.lines, format));
  if (trace_->has_times_) spread_second();
  const std::vector<std::uint32_t> number = number_records();
  set_sizes(number);
  for (TraceEvent& event : trace_->events_) event.record = number[event.record];
  trace_->events_.shrink_to_fit();
  by_hash_ = {};
  keys_ = {};
  return std::shared_ptr<const Trace>(std::move(trace_));
}

namespace {

// Reads a file line by line; a line has at most line_most bytes.
class Lines {
 public:
  explicit Lines(const std::string& path) : file_(std::fopen(path.c_str(), "rbe"), &std::fclose) {}
  [[nodiscard]] bool is_open() const { return file_ != nullptr; }
  [[nodiscard]] bool has_failed() const { return std::ferror(file_.get()) != 0; }
  // The next line, valid until the next call; nullopt at the end of the file. A line longer than line_most is
  // returned cut off, still longer than line_most.
  std::optional<std::string_view> next() {
    line_.clear();
    while (true) {
      if (at_ == end_) {
        at_ = 0;
        end_ = std::fread(part_.data(), 1, part_.size(), file_.get());
        if (end_ == 0) return line_.empty() ? std::nullopt : std::optional<std::string_view>(line_);
      }
      const char* const from = part_.data() + at_;
      const auto* const found = static_cast<const char*>(std::memchr(from, '\n', end_ - at_));
      const std::size_t bytes = found == nullptr ? end_ - at_ : static_cast<std::size_t>(found - from);
      line_.append(from, bytes);
      at_ += bytes + (found == nullptr ? 0 : 1);
      if (found != nullptr || line_.size() > line_most) return line_;
    }
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::vector<char> part_ = std::vector<char>(1 << 16);
  std::size_t at_ = 0, end_ = 0;
  std::string line_;
};

// The program that unpacks the file, recognised by the first bytes of compressed files (Twitter's traces are
// published compressed); empty if the file is not compressed.
std::string_view unpacker(std::string_view line) {
  if (line.starts_with("\x28\xB5\x2F\xFD")) return "zstd -d";
  if (line.starts_with("\x1F\x8B")) return "gunzip";
  return {};
}

}  // namespace

Result<std::shared_ptr<const Trace>> read_trace(const TraceRequest& request) {
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", request.file, why));
  };
  std::error_code failure;
  const auto status = std::filesystem::status(request.file, failure);
  if (failure || !std::filesystem::exists(status))
    return refuse(fmt::format("cannot read: {}", std::strerror(failure ? failure.value() : ENOENT)));
  if (!std::filesystem::is_regular_file(status)) return refuse("expected a regular file");
  Lines lines(request.file);
  if (!lines.is_open()) return refuse(fmt::format("cannot read: {}", std::strerror(errno)));
  TraceBuilder builder(request);
  bool is_first = true;
  while (!builder.is_full()) {
    const auto line = lines.next();
    if (!line) break;
    if (const std::string_view with = unpacker(*line); is_first && !with.empty())
      return refuse(fmt::format("is compressed; expected text, as {} gives", with));
    is_first = false;
    if (line->size() > line_most)
      return refuse(fmt::format("a line is longer than {} bytes; expected a text file", line_most));
    LOCH_TRY(builder.add(*line));
  }
  if (lines.has_failed()) return refuse("cannot read: an error of the device");
  return builder.finish();
}

}  // namespace loch::workloads
