// Recorded histories: what each client requested, the result that it got, and when. A run writes them, and
// the checker (linearizable.h) reads them. There are two formats (docs/formats.md): JSON Lines, one line per
// operation, which people read too, and a binary one (binary_format.h) for runs at a NIC's speed.
//
// Names. Keys and values appear by name, not by their bytes: the load generator gives each PUT a value
// that contains a short name ("w12.345": writer 12, its 345th PUT), unique in the run, so that the bytes
// that a GET returns identify the PUT that wrote them. Names are printable ASCII. Special values:
//   init     the value that the preload gave a record. A GET may read it without a PUT line.
//   corrupt  any name that no PUT wrote; a client that cannot decode the bytes that its GET returned
//            makes up a name ("corrupt:3f2a"). The checker counts such GETs and reports them as violations.
// Lines of client -1 describe the preload: {"client":-1,"op":"put",…,"value":"init","invoke_ns":0,
// "return_ns":0,"outcome":"ok"} says that a key was present when the run began, and a delete with outcome
// "not_found" at time 0 that it was absent. Both are optional: see Initial in linearizable.h. A third
// kind of line of client -1 is
//   {"client":-1,"op":"lost","key":"n3","value":null,"invoke_ns":a,"return_ns":b,"outcome":"ok"}
// It says that node 3 was declared lost between a and b: each key may have become absent once during that
// time. "n3" names the node and is no key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/operation.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/check/clock_map.h"

namespace loch::check {

inline constexpr std::string_view preloaded_value = "init";
inline constexpr std::int32_t preload_client = -1;

// One recorded operation. `value` is the name of the value that a PUT or INSERT brings or that a successful
// GET read, else empty. `return_ns` is empty if the client never received a result (the outcome is then
// unknown).
struct Operation {
  std::int32_t client = 0;
  OpKind kind = OpKind::get;
  Outcome outcome = Outcome::ok;
  std::string key;
  std::optional<std::string> value;
  Nanos invoke_ns = 0;
  std::optional<Nanos> return_ns;

  friend bool operator==(const Operation&, const Operation&) = default;
};

// An Operation whose strings are borrowed, so that clients can record operations without copying names.
struct OperationView {
  std::int32_t client = 0;
  OpKind kind = OpKind::get;
  Outcome outcome = Outcome::ok;
  std::string_view key;
  std::optional<std::string_view> value;
  Nanos invoke_ns = 0;
  std::optional<Nanos> return_ns;
};
[[nodiscard]] OperationView view(const Operation& operation);

// Appends the operation to `out` as one line of the history file, with its newline. A byte outside
// printable ASCII is written as \u00XX, so that the file is valid JSON whatever the names contain.
void append_line(const OperationView& operation, std::string& out);
[[nodiscard]] std::string to_line(const OperationView& operation);

// Returns what is contradictory in an operation, naming the field (an ok without a return time, a
// successful GET without a value, …); empty if the operation is consistent.
[[nodiscard]] std::string why_impossible(const OperationView& operation);

class HistoryWriter;
class BinaryRing;
class BinarySink;
class BinaryReader;

enum class HistoryFormat : std::uint8_t { text, binary };
[[nodiscard]] std::string_view name(HistoryFormat format);  // name of the format: "text" or "binary"

// What a writer has recorded; for a binary history also how often and how long workers waited for room in
// their ring buffers.
struct HistoryStatistics {
  std::uint64_t operations = 0, bytes = 0, waits = 0;
  double waited_s = 0;
};

// Records the operations of one client. Only the client's worker thread may use a log. The HistoryWriter
// owns the log and must outlive its use. In text, record() formats into a private buffer in about 0.1 us; a
// full buffer is written to the file under the writer's lock. In binary, record() fills a ring that a thread
// of the writer empties (binary_sink.h).
class ClientLog {
 public:
  ClientLog(HistoryWriter* writer, std::int32_t client, std::unique_ptr<BinaryRing> ring);
  ~ClientLog();
  ClientLog(const ClientLog&) = delete;
  ClientLog& operator=(const ClientLog&) = delete;

  // Records a finished operation; `operation.client` is replaced by this log's client. Names are copied.
  void record(OperationView operation);
  // Records a PUT, INSERT or DELETE that is about to be issued, with outcome unknown, so that the history has
  // it even if this process is killed during the operation. The later record() with the same key, value and
  // invoke_ns supersedes it. Does nothing unless the writer is durable.
  void invoked(OpKind kind, std::string_view key, std::optional<std::string_view> value, Nanos invoke_ns);

 private:
  friend class HistoryWriter;
  void flush();

  HistoryWriter* writer_;
  std::int32_t client_;
  std::string buffer_;
  std::uint64_t operations_ = 0;
  std::unique_ptr<BinaryRing> ring_;  // null for a text history
};

// Writes one history file: PATH.partial during the run, renamed to PATH by close(), so that a PATH that
// exists is complete. A device or pipe is written to directly (common/base/output_place.h). The destructor
// removes PATH.partial if close() was not called, unless Options::durable is set.
class HistoryWriter {
 public:
  struct Options {
    // true: pass every record to the kernel at once, so that a killed process leaves complete lines in
    // PATH.partial: for runs that kill clients. Costs one system call per operation.
    bool durable = false;
    // true: also write every record to the disk (or file server) before record() returns, so that it survives
    // a crash of the machine. Costs one disk write per operation. Has no effect without `durable`.
    bool is_synced = false;
    HistoryFormat format = HistoryFormat::text;
    // Number of chunks, each of 16 KiB, in the ring of each log of a binary history.
    std::uint32_t ring_chunks = 64;
  };
  // Fails with invalid_argument if PATH.partial cannot be created. A durable binary history also has the file
  // PATH.ring during the run.
  [[nodiscard]] static Result<std::unique_ptr<HistoryWriter>> create(std::string path, Options options);
  [[nodiscard]] static Result<std::unique_ptr<HistoryWriter>> create(std::string path);
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

  // Makes a log for a client; `client` is >= 0 or preload_client. Any thread may call it. Each call returns a
  // separate log, so that a client worker can have one for each operation that it may have outstanding.
  [[nodiscard]] ClientLog& log(std::int32_t client);

  // Flushes every log and renames the file. To be called after the workers have stopped; no log may be
  // used afterwards. Returns the first write error of the whole run.
  [[nodiscard]] Result<> close();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Numbers of recorded operations and of waits for room in ring buffers, over the whole run. To be called
  // after close().
  [[nodiscard]] HistoryStatistics statistics() const;

 private:
  friend class ClientLog;
  HistoryWriter(std::string path, std::string whole, Options options, int descriptor);
  [[nodiscard]] Result<> open_sink();
  void write_out(std::string_view lines);

  std::string path_;  // the path as given by the caller
  // path that the complete history gets, with symbolic links followed; empty if the output is not a regular
  // file
  std::string whole_;
  Options options_;
  int descriptor_;
  bool closed_ = false;
  std::mutex mutex_;                  // protects logs_, descriptor_ and error_
  std::unique_ptr<BinarySink> sink_;  // null for a text history; outlives the rings of logs_
  std::vector<std::unique_ptr<ClientLog>> logs_;
  std::uint64_t bytes_ = 0;
  int error_ = 0;  // errno of the first failed write; 0 if none failed
};

// Joins the histories that the processes of a run wrote to PART (or, if they were killed, to PART.partial)
// into the file `path`, and removes the parts. All parts have the same format; a missing part is skipped.
// `clocks`: for each part, how its times are translated to the clock of the whole history, or empty. An
// operation's interval is widened by the error of the clock; the preload stays at time 0.
// Returns the sums of the binary parts' statistics.
[[nodiscard]] Result<HistoryStatistics> join_histories(const std::string& path,
                                                       const std::vector<std::string>& parts,
                                                       HistoryFormat format,
                                                       const std::vector<ClockMap>& clocks = {});

// Removes the files PATH.partial and PATH.ring that a killed durable writer of the history `path` left.
void remove_unfinished(const std::string& path);

// Parses one line of a history: one flat JSON object with exactly the seven fields of docs/formats.md, in
// any order. The error names `file`, `line`, the field and what was expected.
[[nodiscard]] Result<Operation> parse_line(std::string_view text, std::string_view file, std::size_t line);

// Reads a history file, text or binary, which its first bytes tell. Memory is bounded by the longest line or
// block, which may have at most 1 MiB.
class HistoryReader {
 public:
  [[nodiscard]] static Result<HistoryReader> open(std::string path);
  // Makes a reader of `text`, which must outlive the reader; errors name the file as `name`.
  [[nodiscard]] static Result<HistoryReader> over(std::string name, std::string_view text);
  ~HistoryReader();
  HistoryReader(HistoryReader&&) noexcept;
  HistoryReader& operator=(HistoryReader&&) noexcept;

  // From now on returns only the operations whose keys belong to part `part` of `parts` parts of all keys,
  // and the losses of nodes. Each key belongs to one part, the same in every history of either format.
  void select(std::uint32_t part, std::uint32_t parts);
  // Advances to the next operation; returns it, valid until the next call, null at the end of the file, or a
  // one-line error. A last line without a newline, and a binary file without its end, are errors, because the
  // file may have been truncated.
  [[nodiscard]] Result<const OperationView*> advance();
  // Advances like advance(), but returns a copy of the operation that owns its names.
  [[nodiscard]] Result<std::optional<Operation>> next();
  // Line number, from 1, of the operation that next() returned last; 0 in a binary history.
  [[nodiscard]] std::size_t line() const { return line_; }
  [[nodiscard]] HistoryFormat format() const { return binary_ ? HistoryFormat::binary : HistoryFormat::text; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  HistoryReader(std::string path, std::FILE* file);
  [[nodiscard]] Result<bool> fill_line();

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::unique_ptr<BinaryReader> binary_;  // null for a text history
  std::uint32_t part_ = 0, parts_ = 1;
  Operation operation_;
  OperationView view_;
  std::string text_;
  std::size_t line_ = 0;
  std::vector<char> chunk_;
  std::size_t chunk_at_ = 0;
  std::size_t chunk_size_ = 0;
};

}  // namespace loch::check
