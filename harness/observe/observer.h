#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>

#include "harness/observe/named_tensor.h"
#include "harness/observe/observation_writer.h"
#include "reports/record/claim.h"

namespace lockstep {

/// The interface for an observed program: records tensors like an ObservationWriter, but never
/// throws. After the first failure it prints one line to stderr, writes earlier observations as far
/// as possible, and does nothing from then on. The program continues unobserved. The runner of the
/// program asks for the failure at its end. One thread at a time.
class Observer {
 public:
  /// Files go to `folder`, named after `rank`.
  Observer(std::filesystem::path folder, int rank, ObservingOptions options = {}) noexcept;

  /// Begins step `step`, from 1 and increasing, and in it micro-batch 0.
  void begin_step(std::int64_t step) noexcept;

  /// Begins micro-batch `micro_batch` (from 0) of the step.
  void begin_micro_batch(std::int64_t micro_batch) noexcept;

  /// Records `tensors` in their order; a step must have begun. Each tensor may occur once per
  /// micro-batch and phase under its kind and name.
  void observe(Phase phase, Kind kind, std::span<const NamedTensor> tensors) noexcept;
  void observe(Phase phase, Kind kind, const NamedTensor& tensor) noexcept;

  /// Writes the snapshots; the step continues.
  void finish() noexcept;

  /// The last step begun, observed or not; 0: none.
  std::int64_t step() const noexcept { return step_; }

  /// Rows of the journal.
  std::int64_t rows() const noexcept { return writer_ ? writer_->rows() : rows_; }

  /// Time spent in this object so far, to be subtracted from measured step times.
  std::chrono::nanoseconds time_spent() const noexcept { return time_spent_; }

  /// Throws the failure that ended observing, as an Error. Lockstep or the machine caused it, never
  /// the program. Does nothing if there was none.
  void rethrow_failure() const;

 private:
  template <class Call>
  void attempt(const Call& call) noexcept;
  void give_up() noexcept;

  int rank_;
  std::optional<ObservationWriter> writer_;  ///< absent after the failure
  std::exception_ptr failure_;               ///< the first; null: none
  std::int64_t step_ = 0;
  std::int64_t rows_ = 0;  ///< at the failure
  std::chrono::nanoseconds time_spent_{0};
};

}  // namespace lockstep
