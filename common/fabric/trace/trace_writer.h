// Writes Chrome trace JSON ("Trace Event Format"), which Perfetto opens. Each node is shown as a process, and
// each worker, NIC stage or link as a track, on which a span is drawn as a box.
//
// Perfetto drops boxes that overlap another box of their track. Boxes that would overlap, such as those of
// several requests in the same NIC stage, are therefore put on further lanes of the track: tracks with its
// name and a number, "link: out (2)".
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace loch::fabric {

// A trace file that is being written. Thread-safe; the file has the events in the order of the calls. A write
// error, such as a full disk, is reported by close().
class TraceWriter {
 public:
  // Writes to a temporary file next to `path`, which close() renames to `path`, so that no incomplete trace
  // has that name. If `path` is a device or a pipe, it is written to directly (common/base/output_place.h).
  [[nodiscard]] static Result<std::unique_ptr<TraceWriter>> open(const std::string& path);
  // Removes the temporary file if the trace was not closed.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Track numbers are below lane_stride. Lane (row) n = 0, 1, ... of a track has the track's number plus n *
  // lane_stride.
  static constexpr std::uint32_t lane_stride = 1'000'000;

  void name_node(std::uint32_t node, std::string_view text);
  void name_track(std::uint32_t node, std::uint32_t track, std::string_view text);
  // Writes one box that starts at `start` and lasts `span`, both in ns; `span` is not negative. `args_json`
  // is empty or a JSON object.
  void span(std::uint32_t node, std::uint32_t track, std::string_view text, Nanos start, Nanos span,
            std::string_view args_json = {});
  void instant(std::uint32_t node, std::uint32_t track, std::string_view text, Nanos at);
  // Completes the JSON document and renames the temporary file. To be called once.
  [[nodiscard]] Result<> close();

 private:
  struct Track {
    std::string name;
    std::vector<Nanos> lane_ends;  // for each lane (row) of the track: the end of its last box, in ns
  };

  TraceWriter() = default;
  [[nodiscard]] std::uint32_t take_lane(std::uint32_t node, std::uint32_t track, Nanos start, Nanos end);
  void metadata(std::string_view kind, std::uint32_t node, std::uint32_t track, std::string_view text);
  void emit();  // appends line_ to the file, as an element of the array traceEvents

  std::mutex mutex_;                                                 // guards all members below
  std::map<std::pair<std::uint32_t, std::uint32_t>, Track> tracks_;  // key: node, track number
  std::FILE* file_ = nullptr;
  std::string path_;       // the path as given by the caller
  std::string whole_;      // path that the finished trace gets when close() renames the temporary file
  std::string temporary_;  // path of the temporary file; empty if path_ is a device or pipe
  std::string line_;       // JSON of the event being written; a member so that its memory is reused
  bool is_first_ = true;
  bool has_failed_ = false;
};

}  // namespace loch::fabric
