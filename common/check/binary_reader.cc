// Reads binary histories and checks every header, checksum and count on the way.
#include "common/check/binary_reader.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace loch::check {

std::unexpected<Error> BinaryReader::expected(std::uint64_t at, std::string_view what) const {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: byte {}: expected {}", path_, at, what));
}

Result<> BinaryReader::read(void* to, std::size_t count, std::string_view what) {
  const std::size_t got = std::fread(to, 1, count, file_);
  if (std::ferror(file_) != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("{}: cannot read: {}", path_, std::strerror(errno)));
  at_ += got;
  if (got == count) return {};
  return expected(at_, fmt::format("{}: the file was cut short", what));
}

Result<> BinaryReader::read_file_header() {
  FileHeader header;
  const std::uint64_t begin = at_ - sizeof(std::uint32_t);
  if (is_open_)
    return expected(begin, "a block or an end, and no file header: the file before was cut short");
  // The first four bytes of the header have been read already: they are the beginning of the magic.
  LOCH_TRY(read(header.magic.data() + sizeof(std::uint32_t), sizeof header - sizeof(std::uint32_t),
                "a file header"));
  if (header.magic != binary_magic) return expected(begin, "the magic of a binary history");
  if (header.byte_order != byte_order_mark)
    return expected(begin + offsetof(FileHeader, byte_order),
                    "the mark of little-endian numbers, 0x01020304");
  if (header.version != binary_version)
    return expected(begin + offsetof(FileHeader, version),
                    fmt::format("version {} of the format, not {}", binary_version, header.version));
  is_open_ = true;
  operations_ = 0;
  return {};
}

Result<> BinaryReader::read_block() {
  BlockHeader header;
  const std::uint64_t begin = at_ - sizeof header.magic;
  LOCH_TRY(read(&header.payload_bytes, sizeof header - sizeof header.magic, "a block's header"));
  if (header.payload_bytes > payload_bytes_max)
    return expected(begin + offsetof(BlockHeader, payload_bytes),
                    fmt::format("a payload of at most {} bytes", payload_bytes_max));
  payload_.resize(header.payload_bytes);
  payload_at_ = at_;
  LOCH_TRY(read(payload_.data(), payload_.size(), "a block's payload"));
  if (header.checksum != checksum_of(header, reinterpret_cast<const std::byte*>(payload_.data())))
    return expected(begin, "a block whose checksum is that of its bytes");
  decoder_ = BlockDecoder(header, payload_);
  operations_ += header.operations;
  return {};
}

Result<> BinaryReader::read_end() {
  EndBlock end;
  const std::uint64_t begin = at_ - sizeof end.magic;
  LOCH_TRY(read(&end.zero, sizeof end - sizeof end.magic, "an end"));
  if (end.checksum != checksum_of(end)) return expected(begin, "an end whose checksum is that of its bytes");
  if (end.operations != operations_)
    return expected(
        begin + offsetof(EndBlock, operations),
        fmt::format("{} operations, as many as the blocks hold, not {}", operations_, end.operations));
  is_open_ = false;
  return {};
}

Result<bool> BinaryReader::next_block() {
  for (;;) {
    std::uint32_t magic = 0;
    const std::size_t got = std::fread(&magic, 1, sizeof magic, file_);
    if (got == 0 && std::ferror(file_) == 0) {
      if (is_open_) return expected(at_, "a block or an end: the file was cut short");
      return false;
    }
    at_ += got;
    if (got < sizeof magic) return expected(at_, "a block, an end or a file header: the file was cut short");
    if (std::memcmp(&magic, binary_magic.data(), sizeof magic) == 0) {
      LOCH_TRY(read_file_header());
    } else if (!is_open_) {
      return expected(at_ - got, "a file header");
    } else if (magic == block_magic) {
      LOCH_TRY(read_block());
      return true;
    } else if (magic == end_magic) {
      LOCH_TRY(read_end());
    } else {
      return expected(at_ - got, "a block or an end");
    }
  }
}

Result<const OperationView*> BinaryReader::advance() {
  const auto selected = [this](std::uint64_t hash) { return parts_ == 1 || hash % parts_ == part_; };
  for (;;) {
    while (decoder_.is_done()) {
      LOCH_ASSIGN(const bool there, next_block());
      if (!there) return nullptr;
    }
    const std::uint64_t begin = payload_at_ + decoder_.offset();
    if (const std::string_view wanted = decoder_.next(selected); !wanted.empty())
      return expected(begin, wanted);
    if (!decoder_.is_selected()) continue;
    if (const std::string why = why_impossible(decoder_.operation()); !why.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("{}: byte {}: field {}", path_, begin, why));
    return &decoder_.operation();
  }
}

}  // namespace loch::check
