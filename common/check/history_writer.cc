// Writes histories, as JSON Lines or through a binary sink, to PATH.partial, which is renamed to PATH when
// the history is complete.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/base/output_place.h"
#include "common/check/binary_sink.h"
#include "common/check/history.h"

namespace loch::check {
namespace {

constexpr std::size_t flush_bytes = 64 * 1024;

void append_number(std::int64_t number, std::string& out) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number);
  out.append(digits, end.ptr);
}

void append_string(std::string_view text, std::string& out) {
  constexpr char hex[] = "0123456789abcdef";
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) {
      out.append("\\u00");
      out.push_back(hex[byte >> 4]);
      out.push_back(hex[byte & 15]);
    } else {
      if (c == '"' || c == '\\') out.push_back('\\');
      out.push_back(c);
    }
  }
  out.push_back('"');
}

}  // namespace

OperationView view(const Operation& operation) {
  OperationView result{operation.client, operation.kind,      operation.outcome,  operation.key,
                       std::nullopt,     operation.invoke_ns, operation.return_ns};
  if (operation.value) result.value = *operation.value;
  return result;
}

void append_line(const OperationView& operation, std::string& out) {
  out.append("{\"client\":");
  append_number(operation.client, out);
  out.append(",\"op\":\"").append(name(operation.kind)).append("\",\"key\":");
  append_string(operation.key, out);
  out.append(",\"value\":");
  if (operation.value) {
    append_string(*operation.value, out);
  } else {
    out.append("null");
  }
  out.append(",\"invoke_ns\":");
  append_number(operation.invoke_ns, out);
  out.append(",\"return_ns\":");
  if (operation.return_ns) {
    append_number(*operation.return_ns, out);
  } else {
    out.append("null");
  }
  out.append(",\"outcome\":\"").append(name(operation.outcome)).append("\"}\n");
}

std::string to_line(const OperationView& operation) {
  std::string out;
  append_line(operation, out);
  return out;
}

namespace {

// Whether `name` is "n" followed by a number, as in "n3".
bool is_node_name(std::string_view name) {
  constexpr std::size_t most = 6;
  if (name.size() < 2 || name.size() > most || name.front() != 'n') return false;
  return std::ranges::all_of(name.substr(1), [](char c) { return c >= '0' && c <= '9'; });
}

std::string why_no_loss(const OperationView& operation) {
  if (operation.client != preload_client) return "\"client\": expected -1 for lost";
  if (!is_node_name(operation.key)) return "\"key\": expected the node that was lost, such as \"n3\"";
  if (operation.value) return "\"value\": expected null for lost";
  if (operation.outcome != Outcome::ok) return "\"outcome\": expected ok for lost";
  return {};
}

}  // namespace

std::string why_impossible(const OperationView& operation) {
  if (operation.client < preload_client) return "\"client\": expected -1 (the preload) or more";
  if (operation.invoke_ns < 0) return "\"invoke_ns\": expected 0 or more";
  if (operation.return_ns && *operation.return_ns < operation.invoke_ns)
    return "\"return_ns\": expected at least invoke_ns, or null";
  if (!operation.return_ns && operation.outcome != Outcome::unknown)
    return "\"return_ns\": null goes with the outcome \"unknown\" only";
  if (operation.outcome == Outcome::exists && operation.kind != OpKind::insert_if_absent)
    return "\"outcome\": expected \"exists\" for an insert_if_absent only";
  switch (operation.kind) {
    case OpKind::get:
      if (operation.value.has_value() != (operation.outcome == Outcome::ok))
        return "\"value\": expected what was read for a get with outcome \"ok\", else null";
      break;
    case OpKind::put:
      if (!operation.value) return "\"value\": expected what was put, not null";
      if (operation.outcome == Outcome::not_found)
        return "\"outcome\": expected ok, failed or unknown for a put";
      break;
    case OpKind::insert_if_absent:
      if (!operation.value) return "\"value\": expected what was to be put, not null";
      if (operation.outcome == Outcome::not_found)
        return "\"outcome\": expected ok, exists, failed or unknown for an insert_if_absent";
      break;
    case OpKind::remove:
      if (operation.value) return "\"value\": expected null for a delete";
      break;
    case OpKind::lost:
      return why_no_loss(operation);
  }
  const bool preloads = operation.kind == OpKind::put && operation.outcome == Outcome::ok;
  const bool leaves_out = operation.kind == OpKind::remove && operation.outcome == Outcome::not_found;
  if (operation.client == preload_client && !preloads && !leaves_out)
    return "\"client\": -1, the preload, only puts (ok) or deletes (not_found)";
  return {};
}

std::string_view name(HistoryFormat format) { return format == HistoryFormat::text ? "text" : "binary"; }

ClientLog::ClientLog(HistoryWriter* writer, std::int32_t client, std::unique_ptr<BinaryRing> ring)
    : writer_(writer), client_(client), ring_(std::move(ring)) {}

ClientLog::~ClientLog() = default;

void ClientLog::record(OperationView operation) {
  if (ring_ != nullptr) return ring_->record(operation);
  operation.client = client_;
  ++operations_;
  append_line(operation, buffer_);
  if (writer_->options_.durable || buffer_.size() >= flush_bytes) flush();
}

void ClientLog::invoked(OpKind kind, std::string_view key, std::optional<std::string_view> value,
                        Nanos invoke_ns) {
  if (!writer_->options_.durable || kind == OpKind::get) return;
  record({client_, kind, Outcome::unknown, key, value, invoke_ns, std::nullopt});
}

void ClientLog::flush() {
  if (buffer_.empty()) return;
  const std::lock_guard lock(writer_->mutex_);
  writer_->write_out(buffer_);
  buffer_.clear();
}

Result<std::unique_ptr<HistoryWriter>> HistoryWriter::create(std::string path, Options options) {
  LOCH_ASSIGN(OutputPlace place, output_place(path));
  if (!place.is_file) {
    LOCH_ASSIGN(const int device, open_as_it_is(place));
    std::unique_ptr<HistoryWriter> writer(new HistoryWriter(std::move(path), "", options, device));
    LOCH_TRY(writer->open_sink());
    return writer;
  }
  const std::string partial = place.path + ".partial";
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | (options.is_synced ? O_DSYNC : 0);
  const int descriptor = ::open(partial.c_str(), flags, 0644);
  if (descriptor < 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--history {}: cannot create {}: {}", path, partial, std::strerror(errno)));
  }
  std::unique_ptr<HistoryWriter> writer(
      new HistoryWriter(std::move(path), std::move(place.path), options, descriptor));
  LOCH_TRY(writer->open_sink());
  return writer;
}

Result<> HistoryWriter::open_sink() {
  if (options_.format == HistoryFormat::text) return {};
  const bool keeps_rings = options_.durable && !options_.is_synced && !whole_.empty();
  LOCH_ASSIGN(sink_, BinarySink::create({.ring_path = keeps_rings ? ring_path_of(whole_) : "",
                                         .is_synced = options_.durable && options_.is_synced,
                                         .ring_chunks = options_.ring_chunks,
                                         .descriptor = descriptor_}));
  return {};
}

Result<std::unique_ptr<HistoryWriter>> HistoryWriter::create(std::string path) {
  return create(std::move(path), Options{});
}

HistoryWriter::HistoryWriter(std::string path, std::string whole, Options options, int descriptor)
    : path_(std::move(path)), whole_(std::move(whole)), options_(options), descriptor_(descriptor) {}

HistoryWriter::~HistoryWriter() {
  if (closed_) return;
  sink_.reset();
  ::close(descriptor_);
  std::error_code ignored;  // a destructor cannot report the error
  if (!options_.durable && !whole_.empty()) std::filesystem::remove(whole_ + ".partial", ignored);
}

ClientLog& HistoryWriter::log(std::int32_t client) {
  LOCH_CHECK_GE(client, preload_client);
  const std::lock_guard lock(mutex_);
  std::unique_ptr<BinaryRing> ring = sink_ ? sink_->ring(client) : nullptr;
  logs_.push_back(std::make_unique<ClientLog>(this, client, std::move(ring)));
  return *logs_.back();
}

void HistoryWriter::write_out(std::string_view lines) {
  while (!lines.empty() && error_ == 0) {
    const ssize_t written = ::write(descriptor_, lines.data(), lines.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      error_ = errno;
    } else {
      bytes_ += static_cast<std::uint64_t>(written);
      lines.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

Result<> HistoryWriter::close() {
  LOCH_CHECK(!closed_);
  for (const auto& log : logs_) log->flush();
  if (sink_) error_ = sink_->close();
  closed_ = true;
  if (::close(descriptor_) != 0 && error_ == 0) error_ = errno;
  const std::string partial = whole_ + ".partial";
  if (error_ == 0 && !whole_.empty() && std::rename(partial.c_str(), whole_.c_str()) != 0) error_ = errno;
  if (error_ == 0) return {};
  const bool stays =
      // what a durable writer wrote is kept, because it is the only record of the run
      options_.durable && !whole_.empty();
  std::error_code ignored;
  if (!stays && !whole_.empty()) std::filesystem::remove(partial, ignored);
  return fail(ErrorCode::unavailable,
              fmt::format("--history {}: cannot write: {}{}", path_, std::strerror(error_),
                          stays ? fmt::format(" (what there is stays in {})", partial) : ""));
}

HistoryStatistics HistoryWriter::statistics() const {
  if (sink_) {
    const BinarySink::Statistics sums = sink_->statistics();
    return {sums.operations, sums.bytes, sums.waits, static_cast<double>(sums.waited_ns) / 1e9};
  }
  HistoryStatistics all{.bytes = bytes_};
  for (const auto& log : logs_) all.operations += log->operations_;
  return all;
}

void remove_unfinished(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path + ".partial", ignored);
  std::filesystem::remove(ring_path_of(path), ignored);
}

}  // namespace loch::check
