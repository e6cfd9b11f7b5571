// Recorded histories: what every client asked for and was told, and when. JSON Lines, one line an
// operation (docs/formats.md); written by a run, read by the checker (linearizable.h) and by people.
//
// Names. A key and a value appear by name, not by their bytes: the load generator gives each PUT a
// value that carries its own short name ("w12.345": writer 12, its 345th), unique in the run, so
// that a GET's bytes say whose PUT it read. Names are printable ASCII. The convention:
//   init     the value that the preload gave a record. Reading it needs no PUT line.
//   corrupt  any name that no PUT wrote; a reader that cannot decode the bytes that it got makes one
//            up ("corrupt:3f2a"). The checker counts such reads and reports them as violations.
// Client -1 is the preload: {"client":-1,"op":"put",…,"value":"init","invoke_ns":0,"return_ns":0,
// "outcome":"ok"} says that a key was there when the run began, and a delete with "not_found" at 0
// that it was not. Both are optional: see Initial in linearizable.h. A third line of client -1 is
//   {"client":-1,"op":"lost","key":"n3","value":null,"invoke_ns":a,"return_ns":b,"outcome":"ok"}
// Node 3 was declared lost between a and b: each key may have become absent then, once. "n3" is no key.
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

namespace loch::check {

inline constexpr std::string_view preloaded_value = "init";
inline constexpr std::int32_t preload_client = -1;

// One operation as recorded. `value`: what a PUT wrote or a successful GET read, else none.
// `return_ns`: none when the client never heard the outcome (then the outcome is unknown).
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

// An Operation that borrows its strings: passed by the recording side without a copy.
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

// One line of the file, with its newline, appended to `out`. A byte outside printable ASCII is
// written as \u00XX, so that the file is valid JSON whatever a caller names.
void append_line(const OperationView& operation, std::string& out);
[[nodiscard]] std::string to_line(const OperationView& operation);

// Says what is wrong with an operation that no client can have seen (an ok without a return time, a
// GET that read nothing, …), naming the field; empty when all is well.
[[nodiscard]] std::string why_impossible(const OperationView& operation);

class HistoryWriter;

// Where one client records. Only one thread at a time may use it (its worker); the writer owns it
// and outlives its use. record() formats into a private buffer, about 0.1 us an operation; a full
// buffer goes to the file under the writer's lock.
class ClientLog {
 public:
  ClientLog(HistoryWriter* writer, std::int32_t client);
  ClientLog(const ClientLog&) = delete;
  ClientLog& operator=(const ClientLog&) = delete;

  // A finished operation; its `client` is replaced by this log's. The names are copied.
  void record(OperationView operation);
  // Durable writers only (else nothing is done): notes a PUT or DELETE that is about to be issued,
  // as outcome unknown, so that it is known even if this process is killed in the middle. The
  // record() that follows, with the same key, value and invoke_ns, takes its place.
  void invoked(OpKind kind, std::string_view key, std::optional<std::string_view> value, Nanos invoke_ns);

 private:
  friend class HistoryWriter;
  void flush();

  HistoryWriter* writer_;
  std::int32_t client_;
  std::string buffer_;
};

// Writes one file (a device or pipe as it is, common/base/output_place.h): PATH.partial while the run lasts,
// renamed to PATH by close(), so that a PATH that exists is whole. Destroyed without close(), it removes what
// it wrote (except a durable file).
class HistoryWriter {
 public:
  struct Options {
    // Every record reaches the kernel at once, so that a killed process leaves PATH.partial with
    // whole lines: for runs that kill clients. Costs a system call an operation.
    bool durable = false;
    // Every record also reaches the disk (or the file server) before the call returns, so that a machine that
    // crashes leaves them too. Costs a write to the disk an operation. With `durable` alone.
    bool is_synced = false;
  };
  // Fails (invalid_argument) when PATH.partial cannot be created.
  [[nodiscard]] static Result<std::unique_ptr<HistoryWriter>> create(std::string path, Options options);
  [[nodiscard]] static Result<std::unique_ptr<HistoryWriter>> create(std::string path);
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

  // The log of one client; `client` >= 0, or preload_client. Any thread. Each call makes a new log
  // (two window slots of one client may each have their own).
  [[nodiscard]] ClientLog& log(std::int32_t client);

  // Flushes every log and renames. After the workers have stopped; then no log may be used.
  // Reports the first write error of the whole run.
  [[nodiscard]] Result<> close();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  friend class ClientLog;
  HistoryWriter(std::string path, std::string whole, Options options, int descriptor);
  void write_out(std::string_view lines);

  std::string path_;   // the path as given by the caller
  std::string whole_;  // what PATH.partial is renamed to, links followed; empty: no regular file
  Options options_;
  int descriptor_;
  bool closed_ = false;
  std::mutex mutex_;  // logs_, descriptor_ and error_
  std::vector<std::unique_ptr<ClientLog>> logs_;
  int error_ = 0;  // errno of the first failed write
};

// Reads a line. Strict: one flat JSON object with the seven fields of docs/formats.md, each exactly once, in
// any order, nothing else. The error names `file`, `line` and the field, and what was expected.
[[nodiscard]] Result<Operation> parse_line(std::string_view text, std::string_view file, std::size_t line);

// Reads a file line by line; memory is bounded by the longest line, and that by a limit (1 MiB).
class HistoryReader {
 public:
  [[nodiscard]] static Result<HistoryReader> open(std::string path);
  // Reads `text` as if it were the file `name`; `text` outlives the reader.
  [[nodiscard]] static Result<HistoryReader> over(std::string name, std::string_view text);
  // The next operation, none at the end of the file, or the one-line error. A last line without its
  // newline is an error: the file was cut.
  [[nodiscard]] Result<std::optional<Operation>> next();
  // Of the operation that next() gave last, from 1.
  [[nodiscard]] std::size_t line() const { return line_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  HistoryReader(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  [[nodiscard]] Result<bool> fill_line();

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::string text_;
  std::size_t line_ = 0;
  std::vector<char> chunk_;
  std::size_t chunk_at_ = 0;
  std::size_t chunk_size_ = 0;
};

}  // namespace loch::check
