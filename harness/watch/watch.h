#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "harness/record/observation.h"
#include "harness/record/rank_status.h"
#include "harness/record/step_writer.h"
#include "harness/record/watch_control.h"
#include "harness/watch/lockstep_watch.h"

namespace lockstep {

/// Observes the tensors of one rank of a job through `lockstep_watch.h`, whose functions call these
/// methods. They throw Error.
class Watch {
 public:
  explicit Watch(const lockstep_watch_options& options);

  std::int64_t describe(const lockstep_watch_tensor& described);
  void begin_step(std::int64_t step);
  void observe(std::span<const lockstep_watch_value> values);
  void end_step() { writer_.finish(); }
  void end(const char* error);

 private:
  /// The value of a row as row-major bytes: its own memory, or a copy in `packed_`.
  std::span<const std::byte> bytes_of(const lockstep_watch_value& value, const Observation& row);
  Observation row_of(const lockstep_watch_value& value);

  void write_status(const RankStatus& status) const;

  std::filesystem::path folder_;
  int rank_;
  std::string identity_;
  WatchControl control_;
  StepWriter writer_;
  std::vector<Observation> tensors_;  ///< by number, without values
  std::vector<std::byte> packed_;
};

}  // namespace lockstep
