// Draws a progress bar from a separate thread, four times a second, until the run ends.
#include "app/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace loch::cli {

Progress::Progress(std::function<std::string()> line) : line_(std::move(line)) {
  if (::isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { show(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  wake_.notify_all();
  thread_.join();
  std::fputs("\r\033[K", stderr);
}

void Progress::show() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    wake_.wait_for(lock, std::chrono::milliseconds(250));
    if (is_over_) break;
    const std::string text = line_();
    fmt::print(stderr, "\r\033[K{}", text);
    std::fflush(stderr);
  }
}

std::string bar(double share) {
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * 10);
  std::string cells = "[";
  for (std::size_t i = 0; i < 10; ++i) cells += i < full ? "#" : "·";
  return cells + "]";
}

}  // namespace loch::cli
