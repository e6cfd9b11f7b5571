// The writing side of a binary history: each log fills the chunks of a ring of its own, and one thread per
// process writes full chunks to the file as blocks.
//
// No record is dropped: a log whose ring has no free chunk waits until one was written, which is counted.
// A durable sink keeps its rings in a file beside the history (PATH.ring), so that what a killed process had
// recorded and not yet written is still there; recover_binary() appends it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "common/check/binary_format.h"

namespace loch::check {

class BinarySink;

// Path of the file in which a durable history, written to `history`, keeps its rings.
[[nodiscard]] inline std::string ring_path_of(const std::string& history) { return history + ".ring"; }

// The ring buffer of one client's log. During the run only that log's thread fills chunks, and only the
// sink's thread writes and frees full ones.
class BinaryRing {
 public:
  static constexpr std::size_t chunk_bytes = 16 * 1024;

  // A part of the ring's memory that becomes one block of the file. `committed` has the number of operations
  // in its upper half and the number of their bytes in its lower half, so that one store changes both.
  struct Chunk {
    enum State : std::uint32_t { free, filling, sealed };
    BlockHeader header;
    std::atomic<std::uint64_t> committed;
    std::atomic<std::uint32_t> state;
    std::uint32_t padding;
    std::byte payload[chunk_bytes - sizeof(BlockHeader) - 16];
  };
  static_assert(sizeof(Chunk) == chunk_bytes);

  // `chunks` is the ring's memory, which has to be zeroed.
  BinaryRing(BinarySink* sink, std::int32_t client, std::uint32_t log, Chunk* chunks, std::uint32_t count);

  void record(const OperationView& operation);

 private:
  friend class BinarySink;
  // Hands the chunk that is being filled to the sink's thread, which writes it to the file.
  void seal();
  [[nodiscard]] Chunk& await_free();
  // Writes an operation that fits no chunk, or that has to be on the disk at once, as a block of its own.
  void write_alone(const OperationView& operation);

  BinarySink* sink_;
  std::int32_t client_;
  std::uint32_t log_;
  Chunk* chunks_;
  std::uint32_t count_;
  std::uint32_t fill_ = 0;  // index of the chunk that is being filled or will be filled next
  std::uint32_t number_ = 0;
  bool is_open_ = false;
  Nanos before_ = 0;
  std::uint32_t drain_ = 0;  // index of the chunk that the sink's thread writes next
};

class BinarySink {
 public:
  struct Options {
    std::string ring_path;   // file for the rings; empty: rings are in anonymous memory
    bool is_synced = false;  // true: each worker writes its operations itself, to a file opened with O_DSYNC
    std::uint32_t ring_chunks = 64;
    int descriptor = -1;  // descriptor of the history's file; the caller closes it after close()
  };
  [[nodiscard]] static Result<std::unique_ptr<BinarySink>> create(const Options& options);
  ~BinarySink();
  BinarySink(const BinarySink&) = delete;
  BinarySink& operator=(const BinarySink&) = delete;

  // Makes the ring of a new log; any thread may call it. Throws std::system_error if there is no memory or
  // disk space.
  [[nodiscard]] std::unique_ptr<BinaryRing> ring(std::int32_t client);

  struct Statistics {
    std::uint64_t operations = 0, bytes = 0, waits = 0, waited_ns = 0;
  };
  // Writes to the file what is left in every ring and the end block, and removes the file that holds the
  // rings. To be called after the last record(). Returns the errno of the first failed write of the run, or
  // 0.
  [[nodiscard]] int close();
  [[nodiscard]] Statistics statistics() const;

 private:
  friend class BinaryRing;
  explicit BinarySink(const Options& options) : options_(options) {}
  void drain_main(const std::stop_token& stop);
  // Writes the full chunks of all rings to the file; returns whether there were any.
  bool drain();
  void write_chunk(BinaryRing::Chunk& chunk);
  void write_block(BlockHeader header, const std::byte* payload);
  void write_out(const void* bytes, std::size_t count);
  void refuse(int error);

  struct Mapping {
    void* begin = nullptr;
    std::size_t bytes = 0;
  };
  Options options_;
  int ring_descriptor_ = -1;
  std::mutex rings_mutex_;  // protects rings_ and mappings_
  std::vector<BinaryRing*> rings_;
  std::vector<Mapping> mappings_;
  std::mutex file_mutex_;  // protects the file
  std::atomic<std::uint64_t> operations_{0}, bytes_{0}, waits_{0}, waited_ns_{0};
  std::atomic<int> error_{0};
  std::jthread thread_;
};

// Appends a finished binary history, or the unfinished one of a killed process, to the open file
// `descriptor`: all complete blocks, then the operations in the file `ring_path`, if it exists. End blocks
// are not copied; append_end() writes one for the whole file. If `clock` is not null, times are translated by
// it. Adds the statistics in blocks and end blocks to `totals`. Fails with one line if a file cannot be read.
[[nodiscard]] Result<> append_binary_part(const std::string& path, const std::string& ring_path,
                                          const ClockMap* clock, int descriptor,
                                          BinarySink::Statistics* totals);
[[nodiscard]] Result<> begin_binary(int descriptor);
[[nodiscard]] Result<> append_end(int descriptor, const BinarySink::Statistics& totals);

}  // namespace loch::check
