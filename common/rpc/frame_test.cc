// Tests when a frame counts as arrived, on fabrics that place bytes in address order and on others.
#include "common/rpc/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/fabric/memory.h"
#include "common/rpc/slots.h"

namespace loch::rpc {
namespace {

// A region with one slot for a message; some of its bytes may be elided (not stored).
class Memory {
 public:
  explicit Memory(const SlotShape& shape)
      : bytes_(shape.elision().physical_bytes(shape.slot_bytes()) / 8 + 1),
        region_(0, 0, "memory", reinterpret_cast<std::byte*>(bytes_.data()), shape.slot_bytes(),
                shape.elision()) {}
  [[nodiscard]] fabric::Region& region() { return region_; }
  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = mix64(seed + i);
  }

 private:
  std::vector<std::uint64_t> bytes_;
  fabric::Region region_;
};

TEST(Trailer, EveryFieldComesBack) {
  const Trailer trailer{.sequence = 0xFEDC, .attempt = 11, .code = 14, .check = 0xA5'A5A5'A5A5};
  EXPECT_EQ(Trailer::unpack(trailer.pack()), trailer);
  Trailer again = trailer;
  again.attempt = 12;
  EXPECT_NE(again.pack(), trailer.pack());
}

TEST(Frame, ATrailerAloneSaysThatAnOrderedFrameIsHere) {
  const SlotShape shape(200, 0, 0);
  Memory memory(shape);
  memory.fill(1);
  const Trailer trailer = seal(memory.region(), shape.start(200), 200, 7, 3, Arrival::by_trailer);
  EXPECT_EQ(trailer.check, 0u);
  memory.fill(2);  // overwrites the body, which Arrival::by_trailer does not check
  EXPECT_TRUE(is_whole(memory.region(), shape.start(200), 200, trailer.pack(), Arrival::by_trailer));
  EXPECT_FALSE(is_whole(memory.region(), shape.start(200), 200, 0, Arrival::by_trailer));
}

TEST(Frame, AnUnorderedFrameIsHereWhenEveryKeptByteIs) {
  for (const std::uint32_t value : {0u, 64u, 4096u}) {
    const std::uint32_t message = value + 152;
    const SlotShape shape(message, value, 32);
    Memory memory(shape);
    memory.fill(1);
    const std::uint64_t at = shape.start(message);
    const Trailer trailer = seal(memory.region(), at, message, 7, 3, Arrival::by_check);
    const std::uint64_t word = trailer.pack();
    EXPECT_TRUE(is_whole(memory.region(), at, message, word, Arrival::by_check));
    for (std::uint64_t byte = at; byte < at + message - trailer_bytes; ++byte) {
      if (memory.region().kept(byte, 1) == 0) continue;
      std::byte& there = *memory.region().at(byte);
      there ^= std::byte{0x10};
      EXPECT_FALSE(is_whole(memory.region(), at, message, word, Arrival::by_check)) << byte;
      there ^= std::byte{0x10};
    }
    Trailer other = trailer;
    other.attempt = 5;
    EXPECT_TRUE(is_whole(memory.region(), at, message, other.pack(), Arrival::by_check));
    other.sequence ^= 1;
    EXPECT_FALSE(is_whole(memory.region(), at, message, other.pack(), Arrival::by_check));
    other = trailer;
    other.code ^= 1;
    EXPECT_FALSE(is_whole(memory.region(), at, message, other.pack(), Arrival::by_check));
  }
}

TEST(Frame, TheSameLowBitsOfAnotherTurnAreAnotherFrame) {
  const SlotShape shape(200, 0, 0);
  Memory memory(shape);
  memory.fill(1);
  const std::uint64_t at = shape.start(200), number = 0x12'3456'0007;
  EXPECT_EQ(turns_of(number), 0x12'3456u);
  EXPECT_EQ(turns_of(~std::uint64_t{0}), Trailer::check_mask);
  for (const Arrival arrival : {Arrival::by_trailer, Arrival::by_check}) {
    const std::uint64_t word = seal(memory.region(), at, 200, 7, 3, arrival, turns_of(number)).pack();
    EXPECT_TRUE(is_whole(memory.region(), at, 200, word, arrival, turns_of(number)));
    EXPECT_FALSE(is_whole(memory.region(), at, 200, word, arrival, turns_of(number + 0x10000)));
    EXPECT_FALSE(is_whole(memory.region(), at, 200, word, arrival));
  }
}

TEST(Frame, FabricsThatPlaceInOrderNeedNoCheck) {
  fabric::Capabilities can;
  can.in_order_placement = true;
  EXPECT_EQ(arrival_on(can), Arrival::by_trailer);
  can.in_order_placement = false;
  EXPECT_EQ(arrival_on(can), Arrival::by_check);
}

TEST(Frame, SequencesAreExtendedToTheNearest) {
  std::uint64_t near = 40'000;
  for (std::uint64_t sequence = 40'000; sequence < 400'000; sequence += 977) {
    EXPECT_EQ(extend_sequence(near, static_cast<std::uint16_t>(sequence)), sequence);
    near = sequence;
  }
  EXPECT_EQ(extend_sequence(near, static_cast<std::uint16_t>(near - 3)), near - 3);
}

}  // namespace
}  // namespace loch::rpc
