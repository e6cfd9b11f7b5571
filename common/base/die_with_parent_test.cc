// Tests that a process which asked for it is killed when its parent ends.
#include "common/base/die_with_parent.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

namespace loch {
namespace {

struct Told {
  pid_t child = 0;
  bool answer = false;
};

// Forks a parent that forks a child, in which `asks` is called, and kills the parent. Returns what `asks`
// returned, and whether the child has then ended within `wait_ms`. A child that has not is killed.
std::pair<bool, bool> lose_parent(const std::function<bool()>& asks, int wait_ms) {
  std::array<int, 2> said{};
  EXPECT_EQ(::pipe(said.data()), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    if (::fork() == 0) {
      const Told told = {.child = ::getpid(), .answer = asks()};
      if (::write(said[1], &told, sizeof told) != sizeof told) ::_exit(1);
    }
    for (;;) ::pause();
  }
  ::close(said[1]);
  Told told;
  EXPECT_EQ(::read(said[0], &told, sizeof told), static_cast<ssize_t>(sizeof told));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  pollfd end{.fd = said[0], .events = POLLIN, .revents = 0};
  const bool has_ended = ::poll(&end, 1, wait_ms) == 1;  // the pipe's other end is closed
  if (!has_ended) ::kill(told.child, SIGKILL);
  ::close(said[0]);
  return {told.answer, has_ended};
}

bool with_variable(const std::string& value, const std::function<bool()>& asks) {
  ::setenv(parent_variable, value.c_str(), 1);
  const bool answer = asks();
  return answer && std::getenv(parent_variable) == nullptr;
}

TEST(DieWithParent, AChildEndsWithItsParent) {
  const std::pair both(true, true);
  EXPECT_EQ(lose_parent([] { return die_with_parent(::getppid()); }, 10'000), both);
  const auto by_name = [] { return with_variable(std::to_string(::getppid()), die_with_named_parent); };
  EXPECT_EQ(lose_parent(by_name, 10'000), both);
}

TEST(DieWithParent, AChildThatDoesNotAskOutlivesItsParent) {
  const std::pair outlived(true, false);
  EXPECT_EQ(lose_parent([] { return true; }, 200), outlived);
  ::unsetenv(parent_variable);
  EXPECT_EQ(lose_parent(die_with_named_parent, 200), outlived);
}

TEST(DieWithParent, AProgramBetweenIsNoFault) {
  const pid_t self = ::getpid();
  const auto by_name = [&] { return with_variable(std::to_string(self), die_with_named_parent); };
  EXPECT_EQ(lose_parent(by_name, 200), std::pair(true, false));
}

TEST(DieWithParent, AnotherProcessIsNoParent) {
  EXPECT_FALSE(die_with_parent(::getpid()));
  for (const std::string text : {"", "x", "1 ", "0", "-1", "4194305", "99999999999"}) {
    ::setenv(parent_variable, text.c_str(), 1);
    EXPECT_FALSE(die_with_named_parent()) << text;
    EXPECT_EQ(std::getenv(parent_variable), nullptr) << text;
  }
}

}  // namespace
}  // namespace loch
