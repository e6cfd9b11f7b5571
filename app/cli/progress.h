// A progress line on standard error while a run lasts, where that is a terminal.
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
  // `line` is called from another thread, a few times a second, until the object dies; it must be
  // safe to call then. Nothing happens when standard error is no terminal.
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

// A bar of ten cells: "[####······]".
[[nodiscard]] std::string bar(double share);

}  // namespace loch::cli
