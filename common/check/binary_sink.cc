// Writes binary histories: rings that workers fill, and the thread that empties them into the file.
#include "common/check/binary_sink.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "common/base/check.h"

namespace loch::check {
namespace {

constexpr std::uint64_t byte_mask = 0xFFFF'FFFF;
constexpr unsigned operations_shift = 32;
// Time for which the thread that writes the file sleeps when no chunk (part of a ring buffer) is full.
constexpr std::chrono::microseconds pause{500};

std::int64_t steady_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

BinaryRing::BinaryRing(BinarySink* sink, std::int32_t client, std::uint32_t log, Chunk* chunks,
                       std::uint32_t count)
    : sink_(sink), client_(client), log_(log), chunks_(chunks), count_(count) {}

BinaryRing::Chunk& BinaryRing::await_free() {
  Chunk& chunk = chunks_[fill_];
  if (chunk.state.load(std::memory_order_acquire) == Chunk::free) return chunk;
  const std::int64_t began = steady_ns();
  sink_->waits_.fetch_add(1, std::memory_order_relaxed);
  chunk.state.wait(Chunk::sealed, std::memory_order_acquire);
  sink_->waited_ns_.fetch_add(static_cast<std::uint64_t>(steady_ns() - began), std::memory_order_relaxed);
  return chunk;
}

void BinaryRing::record(const OperationView& operation) {
  const std::size_t most = binary_bytes_most(operation);
  if (sink_->options_.is_synced || most > sizeof(Chunk::payload)) return write_alone(operation);
  if (is_open_ &&
      (chunks_[fill_].committed.load(std::memory_order_relaxed) & byte_mask) + most > sizeof(Chunk::payload))
    seal();
  if (!is_open_) {
    Chunk& chunk = await_free();
    chunk.header = {.client = client_, .log = log_, .number = number_++};
    chunk.committed.store(0, std::memory_order_relaxed);
    chunk.state.store(Chunk::filling, std::memory_order_release);
    before_ = 0;
    is_open_ = true;
  }
  Chunk& chunk = chunks_[fill_];
  const std::uint64_t committed = chunk.committed.load(std::memory_order_relaxed);
  const std::uint64_t used = committed & byte_mask;
  const std::byte* const end = append_binary(operation, before_, chunk.payload + used);
  before_ = time_after(operation);
  const std::uint64_t count = (committed >> operations_shift) + 1;
  // Release order makes the operation's bytes visible before the count that includes them: if this process is
  // killed, the recovery reads only what is counted.
  chunk.committed.store(count << operations_shift | static_cast<std::uint64_t>(end - chunk.payload),
                        std::memory_order_release);
}

void BinaryRing::seal() {
  if (!is_open_) return;
  is_open_ = false;
  chunks_[fill_].state.store(Chunk::sealed, std::memory_order_release);
  fill_ = fill_ + 1 == count_ ? 0 : fill_ + 1;
}

void BinaryRing::write_alone(const OperationView& operation) {
  std::vector<std::byte> payload(binary_bytes_most(operation));
  const std::byte* const end = append_binary(operation, 0, payload.data());
  const auto bytes = static_cast<std::size_t>(end - payload.data());
  if (bytes > payload_bytes_max) return sink_->refuse(EMSGSIZE);
  sink_->write_block({.payload_bytes = static_cast<std::uint32_t>(bytes),
                      .operations = 1,
                      .client = client_,
                      .log = log_,
                      .number = number_++},
                     payload.data());
}

Result<std::unique_ptr<BinarySink>> BinarySink::create(const Options& options) {
  std::unique_ptr<BinarySink> sink(new BinarySink(options));
  if (!options.ring_path.empty() && !options.is_synced) {
    sink->ring_descriptor_ = ::open(options.ring_path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (sink->ring_descriptor_ < 0)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--history: cannot create {}: {}", options.ring_path, std::strerror(errno)));
  }
  LOCH_TRY(begin_binary(options.descriptor));
  sink->bytes_ = sizeof(FileHeader);
  sink->thread_ = std::jthread([s = sink.get()](const std::stop_token& stop) { s->drain_main(stop); });
  return sink;
}

BinarySink::~BinarySink() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  for (const Mapping& mapping : mappings_) ::munmap(mapping.begin, mapping.bytes);
  if (ring_descriptor_ >= 0) ::close(ring_descriptor_);
}

std::unique_ptr<BinaryRing> BinarySink::ring(std::int32_t client) {
  const std::scoped_lock lock(rings_mutex_);
  const std::size_t bytes = options_.ring_chunks * BinaryRing::chunk_bytes;
  const auto offset = static_cast<off_t>(bytes * mappings_.size());
  const bool is_file = ring_descriptor_ >= 0;
  // Reserves the disk space: posix_fallocate() returns an error if the disk is full, whereas a later store to
  // the mapped file would end the process by SIGBUS.
  if (is_file) {
    if (const int error = ::posix_fallocate(ring_descriptor_, offset, static_cast<off_t>(bytes)); error != 0)
      throw std::system_error(error, std::generic_category(), options_.ring_path);
  }
  void* const begin =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, is_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
             is_file ? ring_descriptor_ : -1, is_file ? offset : 0);
  if (begin == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "a ring of the history");
  mappings_.push_back({begin, bytes});
  auto ring = std::make_unique<BinaryRing>(this, client, static_cast<std::uint32_t>(rings_.size()),
                                           static_cast<BinaryRing::Chunk*>(begin), options_.ring_chunks);
  rings_.push_back(ring.get());
  return ring;
}

void BinarySink::refuse(int error) {
  int none = 0;
  error_.compare_exchange_strong(none, error);
}

void BinarySink::write_out(const void* bytes, std::size_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0 && error_ == 0) {
    const ssize_t written = ::write(options_.descriptor, at, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return refuse(errno);
    at += written;
    count -= static_cast<std::size_t>(written);
    bytes_.fetch_add(static_cast<std::uint64_t>(written), std::memory_order_relaxed);
  }
}

void BinarySink::write_block(BlockHeader header, const std::byte* payload) {
  header.checksum = checksum_of(header, payload);
  std::vector<std::byte> block(sizeof header + header.payload_bytes);
  std::memcpy(block.data(), &header, sizeof header);
  std::memcpy(block.data() + sizeof header, payload, header.payload_bytes);
  const std::scoped_lock lock(file_mutex_);
  write_out(block.data(), block.size());
  operations_.fetch_add(header.operations, std::memory_order_relaxed);
}

void BinarySink::write_chunk(BinaryRing::Chunk& chunk) {
  const std::uint64_t committed = chunk.committed.load(std::memory_order_acquire);
  BlockHeader header = chunk.header;
  header.payload_bytes = static_cast<std::uint32_t>(committed & byte_mask);
  header.operations = static_cast<std::uint32_t>(committed >> operations_shift);
  if (header.operations > 0) write_block(header, chunk.payload);
}

bool BinarySink::drain() {
  bool found = false;
  const std::scoped_lock lock(rings_mutex_);
  for (BinaryRing* const ring : rings_) {
    for (std::uint32_t i = 0; i < ring->count_; ++i) {
      BinaryRing::Chunk& chunk = ring->chunks_[ring->drain_];
      if (chunk.state.load(std::memory_order_acquire) != BinaryRing::Chunk::sealed) break;
      // Chunks (parts of a ring buffer) are freed even after a failed write, so that no worker waits for a
      // free chunk for ever; close() returns the error.
      write_chunk(chunk);
      chunk.state.store(BinaryRing::Chunk::free, std::memory_order_release);
      chunk.state.notify_all();
      ring->drain_ = ring->drain_ + 1 == ring->count_ ? 0 : ring->drain_ + 1;
      found = true;
    }
  }
  return found;
}

void BinarySink::drain_main(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (!drain()) std::this_thread::sleep_for(pause);
  }
}

int BinarySink::close() {
  thread_.request_stop();
  thread_.join();
  for (BinaryRing* const ring : rings_) ring->seal();
  drain();
  if (error_ == 0) {
    const Statistics totals = statistics();
    if (const auto ended = append_end(options_.descriptor, totals); !ended) refuse(errno);
    bytes_ += sizeof(EndBlock);
  }
  if (ring_descriptor_ >= 0 && error_ == 0) ::unlink(options_.ring_path.c_str());
  return error_;
}

BinarySink::Statistics BinarySink::statistics() const { return {operations_, bytes_, waits_, waited_ns_}; }

}  // namespace loch::check
