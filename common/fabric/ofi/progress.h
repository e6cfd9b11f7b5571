// A thread that drives the provider for the workers of this process that do not poll.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "common/fabric/ofi/worker.h"

namespace loch::fabric::ofi {

class Progress {
 public:
  Progress() = default;
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Starts the progress thread for these workers, which have to outlive the thread.
  void start(std::vector<OfiWorker*> workers);
  void stop();

 private:
  void body();
  std::vector<OfiWorker*> workers_;
  std::atomic<bool> is_stopping_ = false;
  std::thread thread_;
};

}  // namespace loch::fabric::ofi
