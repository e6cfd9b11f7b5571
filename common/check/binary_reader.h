// Reads binary histories block by block; errors name the file and the byte.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "common/base/result.h"
#include "common/check/binary_format.h"

namespace loch::check {

class BinaryReader {
 public:
  // `file` is positioned at its first byte and outlives the reader.
  BinaryReader(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  void select(std::uint32_t part, std::uint32_t parts) { part_ = part, parts_ = parts; }
  // Returns the next operation, valid until the next call; null at the end of the file. After select(),
  // operations on keys outside the selected part of all keys are left out.
  [[nodiscard]] Result<const OperationView*> advance();

 private:
  // Reads headers up to the next block that holds operations; returns false at the end of the file.
  [[nodiscard]] Result<bool> next_block();
  [[nodiscard]] Result<> read_file_header();
  [[nodiscard]] Result<> read_block();
  [[nodiscard]] Result<> read_end();
  // Reads exactly `count` bytes, or fails because the file was cut short within `what`.
  [[nodiscard]] Result<> read(void* to, std::size_t count, std::string_view what);
  [[nodiscard]] std::unexpected<Error> expected(std::uint64_t at, std::string_view what) const;

  std::string path_;
  std::FILE* file_;
  std::uint64_t at_ = 0;          // offset in the file of the next byte to read
  std::uint64_t payload_at_ = 0;  // offset of the block's payload in the file
  std::uint64_t operations_ = 0;  // number of operations read since the last file header
  bool is_open_ = false;          // whether a file header was read, and not yet its end block
  std::uint32_t part_ = 0, parts_ = 1;
  std::string payload_;
  BlockDecoder decoder_;
};

}  // namespace loch::check
