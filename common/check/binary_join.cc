// Joins histories into one. For binary histories, this includes the blocks of finished and unfinished files,
// and the operations that killed processes left in the rings of unfinished files. Times are translated to one
// clock.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unordered_set>
#include <vector>

#include "common/base/output_place.h"
#include "common/check/binary_sink.h"

namespace loch::check {
namespace {

using Totals = BinarySink::Statistics;

Result<> write_all(int descriptor, const void* bytes, std::size_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(descriptor, at, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      return fail(ErrorCode::unavailable, fmt::format("the history: cannot write: {}", std::strerror(errno)));
    at += written;
    count -= static_cast<std::size_t>(written);
  }
  return {};
}

std::uint64_t identity(const BlockHeader& header) {
  return static_cast<std::uint64_t>(header.log) << 32 | header.number;
}

// The operation with its times on the clock of the whole history.
OperationView translated(OperationView operation, const ClockMap& clock) {
  if (operation.client == preload_client && operation.kind != OpKind::lost) return operation;
  operation.invoke_ns = clock.earliest(operation.invoke_ns);
  if (operation.return_ns)
    operation.return_ns = std::max(operation.invoke_ns, clock.latest(*operation.return_ns));
  return operation;
}

Result<> write_block(int descriptor, BlockHeader header, const std::byte* payload, Totals* totals) {
  header.checksum = checksum_of(header, payload);
  LOCH_TRY(write_all(descriptor, &header, sizeof header));
  LOCH_TRY(write_all(descriptor, payload, header.payload_bytes));
  totals->operations += header.operations;
  totals->bytes += sizeof header + header.payload_bytes;
  return {};
}

// Decodes a block and encodes its operations with translated times. A payload that grows beyond
// payload_bytes_max becomes two blocks.
Result<> translate_block(int descriptor, const BlockHeader& header, const std::byte* payload,
                         const ClockMap& clock, Totals* totals) {
  BlockDecoder decoder(header, {reinterpret_cast<const char*>(payload), header.payload_bytes});
  std::vector<std::byte> out;
  BlockHeader made = header;
  Nanos before = 0;
  const auto flush = [&]() -> Result<> {
    made.payload_bytes = static_cast<std::uint32_t>(out.size());
    LOCH_TRY(write_block(descriptor, made, out.data(), totals));
    out.clear();
    made.operations = 0;
    before = 0;
    return {};
  };
  made.operations = 0;
  while (!decoder.is_done()) {
    const std::string_view wanted = decoder.next([](std::uint64_t) { return true; });
    if (!wanted.empty())
      return fail(ErrorCode::corrupt,
                  fmt::format("the history: a block of client {}: expected {}", header.client, wanted));
    const OperationView operation = translated(decoder.operation(), clock);
    const std::size_t most = binary_bytes_most(operation), at = out.size();
    if (made.operations > 0 && at + most > payload_bytes_max) {
      LOCH_TRY(flush());
      out.resize(most);
    } else {
      out.resize(at + most);
    }
    std::byte* const begin = out.data() + (made.operations > 0 ? at : 0);
    const std::byte* const end = append_binary(operation, before, begin);
    out.resize(static_cast<std::size_t>(end - out.data()));
    before = time_after(operation);
    ++made.operations;
  }
  return made.operations > 0 ? flush() : Result<>{};
}

Result<> append_block(int descriptor, const BlockHeader& header, const std::byte* payload,
                      const ClockMap* clock, Totals* totals) {
  return clock == nullptr ? write_block(descriptor, header, payload, totals)
                          : translate_block(descriptor, header, payload, *clock, totals);
}

// Appends a part in JSON Lines as it is, but for an unfinished last line, which a process that was killed
// while writing may have left. That line can be dropped: either its operation was not issued yet, or an
// earlier line says that it was issued.
Result<> copy_lines(const std::string& part, int descriptor) {
  std::ifstream in(part, std::ios::binary);
  std::string lines;
  std::vector<char> piece(payload_bytes_max);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())), in.gcount() > 0) {
    lines.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    const std::size_t whole = lines.rfind('\n') + 1;  // 0 if there is no line's end
    LOCH_TRY(write_all(descriptor, lines.data(), whole));
    lines.erase(0, whole);
  }
  return {};
}

// Appends a part in JSON Lines with translated times. An unfinished last line is left out, as in
// copy_lines().
Result<> append_lines(const std::string& part, const ClockMap& clock, int descriptor) {
  constexpr std::size_t piece = 256 * 1024;
  std::ifstream in(part, std::ios::binary);
  std::string line, out;
  for (std::size_t number = 1; std::getline(in, line) && !in.eof(); ++number) {
    LOCH_ASSIGN(const Operation operation, parse_line(line, part, number));
    append_line(translated(view(operation), clock), out);
    if (out.size() < piece) continue;
    LOCH_TRY(write_all(descriptor, out.data(), out.size()));
    out.clear();
  }
  return write_all(descriptor, out.data(), out.size());
}

// Appends what is left in a killed process's ring buffers: the operations that the process had recorded there
// and had not written to its history yet.
Result<> append_ring(std::istream& in, const std::unordered_set<std::uint64_t>& written,
                     const ClockMap* clock, int descriptor, Totals* totals) {
  using Chunk = BinaryRing::Chunk;
  std::vector<std::byte> chunk(sizeof(Chunk));
  while (in.read(reinterpret_cast<char*>(chunk.data()), sizeof(Chunk))) {
    BlockHeader header;
    std::uint64_t committed = 0;
    std::uint32_t state = 0;
    std::memcpy(&header, chunk.data() + offsetof(Chunk, header), sizeof header);
    std::memcpy(&committed, chunk.data() + offsetof(Chunk, committed), sizeof committed);
    std::memcpy(&state, chunk.data() + offsetof(Chunk, state), sizeof state);
    header.payload_bytes = static_cast<std::uint32_t>(committed);
    header.operations = static_cast<std::uint32_t>(committed >> 32);
    const bool is_filled = (state == Chunk::filling || state == Chunk::sealed) && header.operations > 0 &&
                           header.payload_bytes <= sizeof(Chunk::payload);
    if (!is_filled || written.contains(identity(header))) continue;
    LOCH_TRY(append_block(descriptor, header, chunk.data() + offsetof(Chunk, payload), clock, totals));
  }
  return {};
}

}  // namespace

Result<> begin_binary(int descriptor) {
  const FileHeader header;
  return write_all(descriptor, &header, sizeof header);
}

Result<> append_end(int descriptor, const Totals& totals) {
  EndBlock end{.operations = totals.operations, .waits = totals.waits, .waited_ns = totals.waited_ns};
  end.checksum = checksum_of(end);
  return write_all(descriptor, &end, sizeof end);
}

Result<> append_binary_part(const std::string& path, const std::string& ring_path, const ClockMap* clock,
                            int descriptor, Totals* totals) {
  std::ifstream in(path, std::ios::binary);
  FileHeader file;
  if (!in.read(reinterpret_cast<char*>(&file), sizeof file) || file.magic != binary_magic)
    return fail(ErrorCode::invalid_argument, fmt::format("{}: expected a binary history", path));
  std::unordered_set<std::uint64_t> written;
  std::vector<std::byte> payload;
  BlockHeader header;
  const auto damaged = [&] {
    return fail(ErrorCode::corrupt, fmt::format("{}: a block before byte {} is damaged", path,
                                                static_cast<std::int64_t>(in.tellg())));
  };
  // A killed process may have left an incomplete block at the end of the file. The operations of that block
  // are still in the ring buffer, from which append_ring() takes them.
  while (in.read(reinterpret_cast<char*>(&header.magic), sizeof header.magic)) {
    if (header.magic == end_magic) {
      EndBlock end;
      if (!in.read(reinterpret_cast<char*>(&end.zero), sizeof end - sizeof end.magic)) break;
      totals->waits += end.waits;
      totals->waited_ns += end.waited_ns;
      continue;
    }
    if (!in.read(reinterpret_cast<char*>(&header.payload_bytes), sizeof header - sizeof header.magic)) break;
    if (header.magic != block_magic || header.payload_bytes > payload_bytes_max) return damaged();
    payload.resize(header.payload_bytes);
    if (!in.read(reinterpret_cast<char*>(payload.data()), static_cast<std::streamsize>(payload.size())))
      break;
    if (header.checksum != checksum_of(header, payload.data())) return damaged();
    written.insert(identity(header));
    LOCH_TRY(append_block(descriptor, header, payload.data(), clock, totals));
  }
  std::ifstream ring(ring_path, std::ios::binary);
  return ring ? append_ring(ring, written, clock, descriptor, totals) : Result<>{};
}

namespace {

Result<HistoryStatistics> write_whole(std::FILE* out, const std::vector<std::string>& parts,
                                      HistoryFormat format, const std::vector<ClockMap>& clocks) {
  const int descriptor = ::fileno(out);
  Totals totals;
  if (format == HistoryFormat::binary) LOCH_TRY(begin_binary(descriptor));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    // A process whose clock is the reference needs no translation.
    const ClockMap* const clock = i < clocks.size() && !clocks[i].samples().empty() ? &clocks[i] : nullptr;
    const std::string found = std::filesystem::exists(part) ? part : part + ".partial";
    if (!std::filesystem::exists(found)) continue;
    if (format == HistoryFormat::binary) {
      LOCH_TRY(append_binary_part(found, ring_path_of(part), clock, descriptor, &totals));
      continue;
    }
    if (clock != nullptr) {
      LOCH_TRY(append_lines(found, *clock, descriptor));
      continue;
    }
    LOCH_TRY(copy_lines(found, descriptor));
  }
  if (format == HistoryFormat::binary) LOCH_TRY(append_end(descriptor, totals));
  return HistoryStatistics{totals.operations, totals.bytes, totals.waits,
                           static_cast<double>(totals.waited_ns) / 1e9};
}

}  // namespace

Result<HistoryStatistics> join_histories(const std::string& path, const std::vector<std::string>& parts,
                                         HistoryFormat format, const std::vector<ClockMap>& clocks) {
  LOCH_ASSIGN(const OutputPlace place, output_place(path));
  const std::string partial = place.path + ".partial";
  std::FILE* const out = std::fopen(partial.c_str(), "wbe");
  if (out == nullptr)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--history {}: cannot create {}: {}", path, partial, std::strerror(errno)));
  auto whole = write_whole(out, parts, format, clocks);
  std::error_code failure;
  if (std::fclose(out) != 0 && whole) whole = fail(ErrorCode::unavailable, "the history: cannot write");
  if (whole) std::filesystem::rename(partial, place.path, failure);
  if (!whole || failure) {
    std::filesystem::remove(partial, failure);
    return fail(ErrorCode::invalid_argument, fmt::format("{}: the history could not be written{}", path,
                                                         whole ? "" : ": " + whole.error().message));
  }
  for (const std::string& part : parts) {
    std::filesystem::remove(part, failure);
    remove_unfinished(part);
  }
  return whole;
}

}  // namespace loch::check
