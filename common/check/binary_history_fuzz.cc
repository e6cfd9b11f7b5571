// Fuzzes the reader of binary histories. If an input begins with the letter f, the bytes behind that letter
// are read as a file. Of any other input the first byte is a number of operations and the rest the payload of
// a block; the block's header and checksum are computed, so that the fuzzer does not have to guess them.
// Either the input is refused with an error of one line that names the byte, or its operations are unchanged
// after they were written and read again.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/check/binary_format.h"

namespace {

using namespace loch::check;

template <typename Header>
void append(const Header& header, std::string* out) {
  out->append(reinterpret_cast<const char*>(&header), sizeof header);
}

// Makes a file with one block, which has the given payload.
std::string file_around(std::string_view payload, std::uint32_t operations) {
  BlockHeader block{.payload_bytes = static_cast<std::uint32_t>(payload.size()), .operations = operations};
  block.checksum = checksum_of(block, reinterpret_cast<const std::byte*>(payload.data()));
  EndBlock end{.operations = operations};
  end.checksum = checksum_of(end);
  std::string file;
  append(FileHeader{}, &file);
  append(block, &file);
  file.append(payload);
  append(end, &file);
  return file;
}

// Reads all operations; returns false if the file was refused.
bool read_all(std::string_view file, std::vector<Operation>* operations) {
  auto reader = HistoryReader::over("input", file);
  LOCH_CHECK(reader.has_value());
  for (;;) {
    const auto next = reader->next();
    if (!next) {
      const std::string& message = next.error().message;
      LOCH_CHECK(message.starts_with("input:"), "{}", message);
      LOCH_CHECK(message.find('\n') == std::string::npos, "{}", message);
      return false;
    }
    if (!next->has_value()) return true;
    operations->push_back(**next);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string file = data[0] == 'f' ? std::string(rest) : file_around(rest, data[0]);
  std::vector<Operation> operations;
  if (!read_all(file, &operations) || operations.size() > 255 || operations.empty()) return 0;
  std::string payload;
  loch::Nanos before = 0;
  for (Operation& operation : operations) {
    operation.client = 0;
    if (!why_impossible(view(operation)).empty()) return 0;
    std::vector<std::byte> bytes(binary_bytes_most(view(operation)));
    const std::byte* const end = append_binary(view(operation), before, bytes.data());
    before = time_after(view(operation));
    payload.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(end - bytes.data()));
  }
  if (payload.size() > payload_bytes_max) return 0;
  std::vector<Operation> again;
  LOCH_CHECK(read_all(file_around(payload, static_cast<std::uint32_t>(operations.size())), &again));
  LOCH_CHECK(again == operations);
  return 0;
}
