#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/gpu/measurer.h"
#include "harness/record/observation.h"
#include "harness/record/rank_status.h"
#include "harness/record/sketch.h"
#include "harness/record/step_writer.h"
#include "harness/record/tensor_bytes.h"
#include "harness/record/watch_control.h"
#include "harness/watch/lockstep_watch.h"

namespace lockstep {

/// Whether the value of a row has a sketch. Requires: it is compared.
bool is_sketched(const Observation& row);

/// Observes the tensors of one rank of a job through `lockstep_watch.h`, whose functions call these
/// methods. They throw Error.
class RankWatch {
 public:
  explicit RankWatch(const lockstep_watch_options& options);

  std::int64_t describe(const lockstep_watch_tensor& described);
  bool keeps() const { return control_.keeps(); }
  bool observes(std::int64_t step) const { return control_.observes(step); }
  std::int64_t thinned_segments(std::int64_t step) const { return control_.thinned_segments(step); }
  void begin_step(std::int64_t step);
  void use_threads(std::int32_t threads);
  void observe(std::span<const lockstep_watch_value> values);
  void observe_next(std::span<const lockstep_watch_value> values);

  /// Values in the memory of a GPU. Throws gpu::Unavailable, and has recorded nothing, if they must
  /// be copied first.
  void observe_on_gpu(std::span<const lockstep_watch_value> values, void* stream);
  void observe_next_on_gpu(std::span<const lockstep_watch_value> values, void* stream);
  void end_step() { writer_.finish(); }
  void end(const char* error);

  /// Writes everything that is pending. The watch is not used any more.
  void close();

 private:
  /// A row, and what goes to other files than the journal.
  struct Measured {
    Observation row;
    std::optional<Sketch> sketch = {};
    std::optional<std::vector<std::byte>> bytes = {};  ///< if they are kept or copied
    bool is_kept = false;
  };

  std::vector<Measured> measured(std::span<const lockstep_watch_value> values);
  const Observation& tensor_of(const lockstep_watch_value& value) const;

  std::vector<Measured> measured_on_gpu(std::span<const lockstep_watch_value> values, void* stream);

  /// Returns which of the rows it has filled; the others need the bytes of their values.
  std::vector<bool> measure_by_kernel(std::span<const lockstep_watch_value> values, void* stream,
                                      std::vector<Measured>& rows);

  /// The row of a value that has not been measured.
  Measured unmeasured(const lockstep_watch_value& value) const;

  /// Called by several threads.
  static void measure(const TensorBytes& bytes, Measured& measured);

  /// Whether a value of `bytes` is stored, or copied because it may be. Notes which.
  bool is_copied(Measured& measured, std::uint64_t bytes);
  void copy_if_wanted(const lockstep_watch_value& value, Measured& measured);

  void append_next(std::vector<Measured> rows);

  /// Writes rows of this step. If the step has one of them already, none is written.
  void append(std::vector<Measured> rows);

  /// Stores the copies of the current step once snapshots are asked for.
  void keep_copies();

  static TensorBytes bytes_of(const lockstep_watch_value& value, const Observation& row);
  void write_status(const RankStatus& status) const;
  void write_facts() const;

  std::filesystem::path folder_;
  int rank_;
  int world_size_;
  bool is_created_;
  std::string identity_;
  WatchControl control_;
  StepWriter writer_;
  std::vector<Observation> tensors_;  ///< by number, without values
  std::size_t threads_ = 1;
  gpu::Measurer gpu_;
  std::vector<Measured> next_;  ///< of the step that begins next
  bool keeps_before_;
  std::vector<Measured> copies_;  ///< of this step, with their bytes, if `keeps_before_`
};

}  // namespace lockstep
