// Chrome trace JSON ("Trace Event Format"), which Perfetto opens: a process per node, a track per
// worker, NIC stage or link.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/units.h"

namespace loch::fabric {

class TraceWriter {
 public:
  // Writes to a temporary beside `path` and renames it in close(): nothing half-written.
  [[nodiscard]] static Result<std::unique_ptr<TraceWriter>> open(const std::string& path);
  ~TraceWriter();

  void name_node(std::uint32_t node, std::string_view text);
  void name_track(std::uint32_t node, std::uint32_t track, std::string_view text);
  // One box from `start` (ns) of `span` ns; `args_json` is empty or a JSON object.
  void span(std::uint32_t node, std::uint32_t track, std::string_view text, Nanos start, Nanos span,
            std::string_view args_json = {});
  void instant(std::uint32_t node, std::uint32_t track, std::string_view text, Nanos at);
  [[nodiscard]] Result<> close();

 private:
  TraceWriter() = default;
  std::FILE* file_ = nullptr;
  std::string path_;
  bool is_first_ = true;
};

}  // namespace loch::fabric
