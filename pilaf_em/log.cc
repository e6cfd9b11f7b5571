#include "pilaf_em/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "pilaf_em/checksum.h"

namespace loch::pilaf {
namespace {

constexpr char magic[8] = {'L', 'O', 'C', 'H', 'P', 'L', 'F', '1'};
constexpr std::size_t header_bytes = 48, crc_bytes = 8;
constexpr std::size_t put_head_bytes = 9, remove_head_bytes = 5;
constexpr std::size_t most_waiting = 64 << 20;  // bytes that async keeps before append waits
constexpr std::uint32_t longest = 1U << 30;

template <typename T>
void add(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}
template <typename T>
[[nodiscard]] T take(Log::Bytes bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::vector<std::byte> header_of(const LogOwner& owner) {
  std::vector<std::byte> bytes;
  for (const char c : magic) bytes.push_back(static_cast<std::byte>(c));
  for (const std::uint32_t field :
       {owner.node, owner.server, owner.nodes, owner.servers, owner.key_size, std::uint32_t{0}})
    add(bytes, field);
  add(bytes, owner.seed);
  add(bytes, crc64(bytes));
  return bytes;
}

// Bytes of the whole record at the front of `rest`; 0: it is not whole.
std::size_t parse(Log::Bytes rest, Log::Bytes* key, Log::Bytes* value, bool* is_put) {
  if (rest.size() < remove_head_bytes) return 0;
  const auto kind = static_cast<char>(rest[0]);
  if (kind != 'P' && kind != 'D') return 0;
  *is_put = kind == 'P';
  const std::size_t head = *is_put ? put_head_bytes : remove_head_bytes;
  if (rest.size() < head) return 0;
  const auto key_bytes = take<std::uint32_t>(rest, 1);
  const std::uint32_t value_bytes = *is_put ? take<std::uint32_t>(rest, 5) : 0;
  if (key_bytes > longest || value_bytes > longest) return 0;
  const std::size_t body = head + key_bytes + value_bytes;
  if (rest.size() < body + crc_bytes) return 0;
  if (take<std::uint64_t>(rest, body) != crc64(rest.first(body))) return 0;
  *key = rest.subspan(head, key_bytes);
  *value = rest.subspan(head + key_bytes, value_bytes);
  return body + crc_bytes;
}

// Reads the file by pieces, so that a long log takes no more memory than its longest record.
class Reader {
 public:
  Reader(int file, std::uint64_t size) : file_(file), size_(size) {}
  // What is left of the file from `at` on, as much as `least` bytes if there are so many.
  [[nodiscard]] Log::Bytes at(std::uint64_t at, std::size_t least) {
    if (at >= begin_ && at + least <= begin_ + buffer_.size())
      return Log::Bytes(buffer_).subspan(at - begin_);
    constexpr std::size_t piece = 4 << 20;
    const std::uint64_t want = std::min<std::uint64_t>(std::max(least, piece), size_ - std::min(at, size_));
    buffer_.resize(want);
    begin_ = at;
    std::size_t got = 0;
    while (got < want) {
      const ssize_t n = pread(file_, buffer_.data() + got, want - got, static_cast<off_t>(at + got));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    buffer_.resize(got);
    return buffer_;
  }

 private:
  int file_;
  std::uint64_t size_, begin_ = 0;
  std::vector<std::byte> buffer_;
};

std::unexpected<Error> broken(const std::string& path, std::string_view what) {
  return fail(ErrorCode::corrupt, fmt::format("pilaf.log: {}: {}", path, what));
}

std::unexpected<Error> failed(const std::string& path, std::string_view what) {
  return fail(ErrorCode::unavailable, fmt::format("pilaf.log: {}: {}: {}", path, what, std::strerror(errno)));
}

}  // namespace

Result<std::unique_ptr<Log>> Log::open(const std::string& path, const LogOwner& owner, LogSync sync,
                                       const Visitor& visitor) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return failed(path, "cannot be opened");
  std::unique_ptr<Log> log(new Log(file, path, sync));
  LOCH_TRY(log->begin(owner, visitor));
  if (sync == LogSync::async) log->writer_ = std::thread([raw = log.get()] { raw->run_writer(); });
  return log;
}

Result<> Log::begin(const LogOwner& owner, const Visitor& visitor) {
  struct stat status{};
  if (fstat(file_, &status) != 0) return failed(path_, "cannot be looked at");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const std::vector<std::byte> header = header_of(owner);
  // A file that was being made when its process died.
  if (size < header_bytes) {
    if (ftruncate(file_, 0) != 0 || !write_out(header)) return failed(path_, "cannot be written");
    replayed_.bytes_dropped = size;
    return {};
  }
  Reader reader(file_, size);
  if (std::memcmp(reader.at(0, header_bytes).data(), header.data(), header_bytes) != 0) {
    return broken(path_, fmt::format("is no log of server {} of node {} of this deployment (nodes, servers, "
                                     "key size and seed count); expected another path, or that one",
                                     owner.server, owner.node));
  }
  std::uint64_t at = header_bytes;
  while (at < size) {
    Bytes key, value;
    bool is_put = false;
    std::size_t least = put_head_bytes;
    Bytes rest = reader.at(at, least);
    if (rest.size() >= put_head_bytes) {  // how long is it?
      const std::uint64_t lengths = std::uint64_t{take<std::uint32_t>(rest, 1)} +
                                    (static_cast<char>(rest[0]) == 'P' ? take<std::uint32_t>(rest, 5) : 0);
      least =
          static_cast<std::size_t>(std::min<std::uint64_t>(lengths + put_head_bytes + crc_bytes, size - at));
      rest = reader.at(at, least);
    }
    const std::size_t whole = parse(rest, &key, &value, &is_put);
    if (whole == 0) break;
    if (is_put)
      visitor.put(key, value);
    else
      visitor.remove(key);
    ++replayed_.records;
    at += whole;
  }
  replayed_.bytes_dropped = size - at;
  if (at < size && ftruncate(file_, static_cast<off_t>(at)) != 0) return failed(path_, "cannot be cut");
  if (lseek(file_, static_cast<off_t>(at), SEEK_SET) < 0) return failed(path_, "cannot be appended to");
  return {};
}

Log::~Log() {
  if (writer_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
    }
    work_.notify_one();
    writer_.join();
  }
  close(file_);
}

bool Log::write_out(const std::vector<std::byte>& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(file_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

bool Log::append_put(Bytes key, Bytes value) {
  record_.clear();
  record_.push_back(static_cast<std::byte>('P'));
  add(record_, static_cast<std::uint32_t>(key.size()));
  add(record_, static_cast<std::uint32_t>(value.size()));
  return append(key, value);
}

bool Log::append_remove(Bytes key) {
  record_.clear();
  record_.push_back(static_cast<std::byte>('D'));
  add(record_, static_cast<std::uint32_t>(key.size()));
  return append(key, {});
}

bool Log::append(Bytes key, Bytes value) {
  record_.insert(record_.end(), key.begin(), key.end());
  record_.insert(record_.end(), value.begin(), value.end());
  add(record_, crc64(record_));
  ++appended_;
  if (sync_ != LogSync::async) {
    // After one failure the file may end in half a record: what would follow could not be read.
    if (has_failed_) return false;
    has_failed_ = !write_out(record_) || (sync_ == LogSync::fsync && fdatasync(file_) != 0);
    written_records_ += has_failed_ ? 0 : 1;
    return !has_failed_;
  }
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [this] { return waiting_.size() < most_waiting || has_failed_; });
  if (has_failed_) return false;
  waiting_.insert(waiting_.end(), record_.begin(), record_.end());
  ++waiting_records_;
  lock.unlock();
  work_.notify_one();
  return true;
}

bool Log::flush() {
  if (sync_ == LogSync::async) {
    std::unique_lock lock(mutex_);
    drained_.wait(lock, [this] { return (waiting_.empty() && !is_writing_) || has_failed_; });
    return !has_failed_;
  }
  return !has_failed_;
}

void Log::run_writer() {
  std::vector<std::byte> writing;
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return !waiting_.empty() || is_closing_; });
    if (waiting_.empty()) return;
    writing.clear();
    std::swap(writing, waiting_);
    const std::uint64_t records = std::exchange(waiting_records_, 0);
    is_writing_ = true;
    lock.unlock();
    const bool is_written = write_out(writing);
    lock.lock();
    is_writing_ = false;
    if (is_written)
      written_records_ += records;
    else
      has_failed_ = true;
    drained_.notify_all();
    if (has_failed_) return;
  }
}

}  // namespace loch::pilaf
