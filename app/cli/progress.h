// Shows a line of progress on standard error during a run, if standard error is a terminal.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace loch::cli {

class Progress {
 public:
  // `line` makes the text. It is called from another thread a few times a second until this object is
  // destroyed, so it has to be thread-safe. Nothing is shown if standard error is not a terminal.
  explicit Progress(std::function<std::string()> line);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void show();
  std::function<std::string()> line_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_over_ = false;
  std::thread thread_;
};

// A bar of ten cells for a share from 0 to 1, such as "[####······]".
[[nodiscard]] std::string bar(double share);

}  // namespace loch::cli
