#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/observe/digester.h"
#include "harness/observe/named_tensor.h"
#include "harness/record/keep_policy.h"
#include "harness/record/step_writer.h"

namespace lockstep {

/// Settings for observing a rank.
struct ObservingOptions {
  std::string identity = {};  ///< names the writer in the files; empty: unnamed
  KeepPolicy keep = KeepPolicy::all();
  std::unique_ptr<Digester> digester = {};  ///< null: a CpuDigester
};

/// Observes the tensors of one rank: writes a row per tensor to the journal and, if selected, a
/// snapshot. Does not communicate. Synchronises only the tensors' own devices. Changes no tensor
/// and no autograd state. One thread at a time.
///
/// A tensor is identified by micro-batch, phase, kind and name. It may be observed once per step
/// under these, because a second value would overwrite the first.
class ObservationWriter {
 public:
  /// Files go to `folder`, named after `rank`. Throws Error (usage) when they cannot be created.
  ObservationWriter(std::filesystem::path folder, int rank, ObservingOptions options = {});

  /// Begins step `step` with micro-batch 0, and writes the snapshots of the step before. Steps
  /// start at 1 or later and increase; otherwise throws Error (internal).
  void begin_step(std::int64_t step);

  /// Begins micro-batch `micro_batch` (from 0) of the step.
  void begin_micro_batch(std::int64_t micro_batch) { micro_batch_ = micro_batch; }

  /// Records `tensors` in their order; a step must have begun. A tensor that cannot be compared
  /// (`describe`) is recorded with the reason. Throws Error (usage) when the journal cannot be
  /// written. Throws Error (internal) when the step already has one of them or a shard does not
  /// fit, and passes on the digester's exceptions. In these last cases none of them gets a row.
  void observe(Phase phase, Kind kind, std::span<const NamedTensor> tensors);

  /// Writes the snapshots. The step continues: the next `finish` or `begin_step` writes later
  /// observations. Throws Error (usage) on failure; it may be called again.
  void finish() { writer_.finish(); }

  /// Rows of the journal.
  std::int64_t rows() const { return writer_.rows(); }

 private:
  Observation row_of(Phase phase, Kind kind, const NamedTensor& tensor);
  std::vector<DigestTask> tasks_for(std::span<const NamedTensor> tensors,
                                    std::vector<Observation>& rows);

  std::unique_ptr<Digester> digester_;
  StepWriter writer_;
  std::int64_t micro_batch_ = 0;
};

}  // namespace lockstep
