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

/// What a program that is observed calls: writes down its tensors as an ObservationWriter does, and
/// never throws. At the first failure, whatever it is, one line says so on stderr, what was seen
/// until then is written as far as that can be done, and everything afterwards does nothing: the
/// program goes on, no longer observed. Whoever runs the program asks for the failure at its end.
/// One thread at a time.
class Observer {
 public:
  /// Files go to `folder`, named after `rank`.
  Observer(std::filesystem::path folder, int rank, ObservingOptions options = {}) noexcept;

  /// Begins step `step`, from 1 and increasing, and in it micro-batch 0.
  void begin_step(std::int64_t step) noexcept;

  /// Begins micro-batch `micro_batch` (from 0) of the step.
  void begin_micro_batch(std::int64_t micro_batch) noexcept;

  /// Notes `tensors` in their order, in a step; each once in a micro-batch and phase under its kind
  /// and name.
  void observe(Phase phase, Kind kind, std::span<const NamedTensor> tensors) noexcept;
  void observe(Phase phase, Kind kind, const NamedTensor& tensor) noexcept;

  /// Writes what is kept; the step goes on.
  void finish() noexcept;

  /// The step begun last, observed or not; 0: none.
  std::int64_t step() const noexcept { return step_; }

  /// Rows of the journal.
  std::int64_t rows() const noexcept { return writer_ ? writer_->rows() : rows_; }

  /// Time spent in this object so far: what is measured of a step is told without it.
  std::chrono::nanoseconds time_spent() const noexcept { return time_spent_; }

  /// Throws the failure that ended the observing, as an Error: it is Lockstep's or the machine's,
  /// and never one of the program. Nothing happens where there was none.
  void rethrow_failure() const;

 private:
  template <class Call>
  void attempt(const Call& call) noexcept;
  void give_up() noexcept;

  int rank_;
  std::optional<ObservationWriter> writer_;  ///< absent since the failure
  std::exception_ptr failure_;               ///< the first; null: there was none
  std::int64_t step_ = 0;
  std::int64_t rows_ = 0;  ///< at the failure
  std::chrono::nanoseconds time_spent_{0};
};

}  // namespace lockstep
