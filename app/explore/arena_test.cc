// Tests that restoring saved memory restores contents, free lists and coroutine frames.
#include "app/explore/arena.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace loch::explore {
namespace {

struct World {
  std::map<int, std::string> words;
};

TEST(Arena, GoesBackToWhatWasSaved) {
  const auto arena = Arena::make();
  if (arena == nullptr) GTEST_SKIP() << "this build has a new of its own";
  World* world = nullptr;
  {
    const Arena::Use use(arena.get());
    world = new World;
    for (int i = 0; i < 100; ++i) world->words[i] = std::string(40, 'a');
  }
  ASSERT_TRUE(Arena::owns(world));
  arena->mark();
  const auto change = [&](char to) {
    const Arena::Use use(arena.get());
    for (int i = 0; i < 50; ++i) world->words.erase(i);
    for (int i = 100; i < 2000; ++i) world->words[i] = std::string(60, to);
  };
  change('b');
  const Arena::Saved saved = arena->save();
  arena->reset();
  EXPECT_EQ(world->words.size(), 100u);
  EXPECT_EQ(world->words.at(0), std::string(40, 'a'));
  change('c');
  EXPECT_EQ(world->words.at(1999), std::string(60, 'c'));
  arena->restore(saved);
  EXPECT_EQ(world->words.size(), 1950u);
  EXPECT_EQ(world->words.count(0), 0u);
  EXPECT_EQ(world->words.at(1999), std::string(60, 'b'));
  {
    const Arena::Use use(arena.get());
    world->words.clear();
    const Arena::Pause pause;
    const std::string outside(100, 'x');
    EXPECT_FALSE(Arena::owns(outside.data()));
  }
}

TEST(Arena, ThereIsOneAtATimeAndWhatIsFreedIsTakenAgain) {
  const auto arena = Arena::make();
  if (arena == nullptr) GTEST_SKIP() << "this build has a new of its own";
  EXPECT_EQ(Arena::make(), nullptr);
  const Arena::Use use(arena.get());
  std::size_t used = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto piece = std::make_unique<std::byte[]>(3000);
    EXPECT_TRUE(Arena::owns(piece.get()));
    if (i == 10) used = arena->used();
  }
  EXPECT_EQ(arena->used(), used);
  struct alignas(64) Line {
    char bytes[64];
  };
  const auto line = std::make_unique<Line>();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(line.get()) % 64, 0u);
}

}  // namespace
}  // namespace loch::explore
