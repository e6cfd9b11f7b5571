// Runs the stored inputs of the endpoint fuzzer through the fuzzer's target function, also in builds without
// a fuzzer.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

TEST(EndpointCorpus, EveryKeptInputIsReadOrRefused) {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LOCH_ENDPOINT_CORPUS)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    SCOPED_TRACE(entry.path().string());
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    ++inputs;
  }
  EXPECT_GE(inputs, 16);
}

}  // namespace
