// Writes Chrome trace JSON ("Trace Event Format"), which Perfetto opens: one process for each node, one track
// for each worker, NIC stage or link.
//
// Boxes of one track must not overlap, because Perfetto drops those that do. Boxes that overlap (several
// requests in the same unit) go to further lanes: tracks of the same name with a number, "link: out (2)".
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

// Thread-safe; events keep the order of the calls. Write errors (a full disk) are kept and reported by
// close().
class TraceWriter {
 public:
  // Writes to a temporary file next to `path`, which close() renames, so that no incomplete file has the
  // name. A device or pipe is written to directly (common/base/output_place.h).
  [[nodiscard]] static Result<std::unique_ptr<TraceWriter>> open(const std::string& path);
  // Removes the temporary of a trace that was not closed.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Numbers of tracks are below lane_stride; the number of a lane is its track's plus a multiple of
  // lane_stride.
  static constexpr std::uint32_t lane_stride = 1'000'000;

  void name_node(std::uint32_t node, std::string_view text);
  void name_track(std::uint32_t node, std::uint32_t track, std::string_view text);
  // Writes one box from `start` (ns) of `span` ns, which is not negative; `args_json` is empty or a JSON
  // object.
  void span(std::uint32_t node, std::uint32_t track, std::string_view text, Nanos start, Nanos span,
            std::string_view args_json = {});
  void instant(std::uint32_t node, std::uint32_t track, std::string_view text, Nanos at);
  // Completes the document and renames the file; to be called once.
  [[nodiscard]] Result<> close();

 private:
  struct Track {
    std::string name;
    std::vector<Nanos> lane_ends;  // where the last box of each lane ends
  };

  TraceWriter() = default;
  [[nodiscard]] std::uint32_t take_lane(std::uint32_t node, std::uint32_t track, Nanos start, Nanos end);
  void metadata(std::string_view kind, std::uint32_t node, std::uint32_t track, std::string_view text);
  void emit();  // writes line_ as a further element of traceEvents

  std::mutex mutex_;                                                 // guards the members that follow
  std::map<std::pair<std::uint32_t, std::uint32_t>, Track> tracks_;  // by node and track
  std::FILE* file_ = nullptr;
  std::string path_;       // the path as given by the caller
  std::string whole_;      // the final path, to which the temporary file is renamed
  std::string temporary_;  // empty: the target is a device or pipe, and written to directly
  std::string line_;       // the event being written; keeps its capacity
  bool is_first_ = true;
  bool has_failed_ = false;
};

}  // namespace loch::fabric
