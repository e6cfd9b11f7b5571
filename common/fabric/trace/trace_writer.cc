// Writes a file in Chrome's trace format, event by event. The file gets its final name when it is complete.
#include "common/fabric/trace/trace_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "common/base/check.h"
#include "common/base/output_place.h"

namespace loch::fabric {
namespace {

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

// Appends nanoseconds as microseconds, exactly: 1234567 as 1234.567.
void append_micros(std::string& out, Nanos ns) {
  const bool negative = ns < 0;
  const std::uint64_t magnitude =
      negative ? ~static_cast<std::uint64_t>(ns) + 1 : static_cast<std::uint64_t>(ns);
  fmt::format_to(std::back_inserter(out), "{}{}.{:03}", negative ? "-" : "", magnitude / 1000,
                 magnitude % 1000);
}

}  // namespace

Result<std::unique_ptr<TraceWriter>> TraceWriter::open(const std::string& path) {
  std::unique_ptr<TraceWriter> writer(new TraceWriter);
  writer->path_ = path;
  LOCH_ASSIGN(const OutputPlace place, output_place(path));
  if (place.is_file) {
    writer->whole_ = place.path;
    writer->temporary_ = fmt::format("{}.{}.tmp", place.path, getpid());
    writer->file_ = std::fopen(writer->temporary_.c_str(), "we");
  } else {
    LOCH_ASSIGN(const int device, open_as_it_is(place));
    writer->file_ = ::fdopen(device, "w");
  }
  if (writer->file_ == nullptr) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("trace {}: cannot be written: {}", path, std::strerror(errno)));
  }
  writer->has_failed_ = std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", writer->file_) < 0;
  return writer;
}

TraceWriter::~TraceWriter() {
  if (file_ == nullptr) return;
  (void)std::fclose(file_);
  if (!temporary_.empty()) (void)std::remove(temporary_.c_str());
}

void TraceWriter::emit() {
  LOCH_CHECK(file_ != nullptr, "an event after the end of trace {}", path_);
  if (std::fputs(is_first_ ? "\n" : ",\n", file_) < 0 ||
      std::fwrite(line_.data(), 1, line_.size(), file_) != line_.size()) {
    has_failed_ = true;
  }
  is_first_ = false;
}

void TraceWriter::metadata(std::string_view kind, std::uint32_t node, std::uint32_t track,
                           std::string_view text) {
  line_.clear();
  fmt::format_to(std::back_inserter(line_), R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":)",
                 node, track, kind);
  append_string(line_, text);
  line_ += "}}";
  emit();
}

void TraceWriter::name_node(std::uint32_t node, std::string_view text) {
  const std::lock_guard lock(mutex_);
  metadata("process_name", node, 0, text);
}

void TraceWriter::name_track(std::uint32_t node, std::uint32_t track, std::string_view text) {
  const std::lock_guard lock(mutex_);
  tracks_[{node, track}].name = text;
  metadata("thread_name", node, track, text);
}

// Chooses a lane (row) of the track for a box that begins at `start`: of the lanes that are free then, the
// one whose last box ended latest, or a new lane if none is free. If the spans of a track are written in the
// order of their ends, the track gets no more lanes than it has spans that overlap at one instant.
std::uint32_t TraceWriter::take_lane(std::uint32_t node, std::uint32_t track, Nanos start, Nanos end) {
  Track& of = tracks_[{node, track}];
  std::size_t best = of.lane_ends.size();
  for (std::size_t lane = 0; lane < of.lane_ends.size(); ++lane) {
    if (of.lane_ends[lane] > start) continue;
    if (best == of.lane_ends.size() || of.lane_ends[lane] > of.lane_ends[best]) best = lane;
  }
  const auto number = static_cast<std::uint32_t>(track + best * lane_stride);
  if (best == of.lane_ends.size()) {
    of.lane_ends.push_back(end);
    if (best > 0) metadata("thread_name", node, number, fmt::format("{} ({})", of.name, best + 1));
  }
  of.lane_ends[best] = end;
  return number;
}

void TraceWriter::span(std::uint32_t node, std::uint32_t track, std::string_view text, Nanos start,
                       Nanos span, std::string_view args_json) {
  LOCH_CHECK(span >= 0 && track < lane_stride, "a box of {} ns on track {} of node {}", span, track, node);
  const std::lock_guard lock(mutex_);
  const std::uint32_t lane = take_lane(node, track, start, start + span);
  line_.clear();
  fmt::format_to(std::back_inserter(line_), R"({{"ph":"X","pid":{},"tid":{},"ts":)", node, lane);
  append_micros(line_, start);
  line_ += ",\"dur\":";
  append_micros(line_, span);
  line_ += ",\"name\":";
  append_string(line_, text);
  if (!args_json.empty()) {
    line_ += ",\"args\":";
    line_ += args_json;
  }
  line_ += '}';
  emit();
}

void TraceWriter::instant(std::uint32_t node, std::uint32_t track, std::string_view text, Nanos at) {
  const std::lock_guard lock(mutex_);
  line_.clear();
  fmt::format_to(std::back_inserter(line_), R"({{"ph":"i","s":"t","pid":{},"tid":{},"ts":)", node, track);
  append_micros(line_, at);
  line_ += ",\"name\":";
  append_string(line_, text);
  line_ += '}';
  emit();
}

Result<> TraceWriter::close() {
  const std::lock_guard lock(mutex_);
  LOCH_CHECK(file_ != nullptr, "trace {} is closed once", path_);
  if (std::fputs("\n]}\n", file_) < 0) has_failed_ = true;
  if (std::fclose(file_) != 0) has_failed_ = true;
  file_ = nullptr;
  if (has_failed_ || (!temporary_.empty() && std::rename(temporary_.c_str(), whole_.c_str()) != 0)) {
    const std::string why = std::strerror(errno);
    if (!temporary_.empty()) (void)std::remove(temporary_.c_str());
    return fail(ErrorCode::exhausted, fmt::format("trace {}: cannot be written: {}", path_, why));
  }
  return {};
}

}  // namespace loch::fabric
