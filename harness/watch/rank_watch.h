#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/gpu/measurer.h"
#include "harness/record/observation.h"
#include "harness/record/rank_status.h"
#include "harness/record/sketch.h"
#include "harness/record/step_writer.h"
#include "harness/record/tensor_bytes.h"
#include "harness/record/watch_control.h"
#include "harness/watch/lockstep_watch.h"
#include "harness/watch/work_in_order.h"

namespace lockstep {

/// Whether the value of a row has a sketch. Requires: it is compared.
bool is_sketched(const Observation& row);

/// The digest of a value in memory. Throws Error (internal) for a type without one.
Digest digest_of_value(std::string_view dtype, const Shape& shape, const void* data,
                       const std::int64_t* strides);

/// Observes the tensors of one rank of a job through `lockstep_watch.h`, whose functions call these
/// methods. They throw Error.
class RankWatch {
 public:
  explicit RankWatch(const lockstep_watch_options& options);

  std::int64_t describe(const lockstep_watch_tensor& described);
  /// Whether values are to be stored: in the first steps, or as the control page says now.
  bool keeps() const { return is_keeping_ = is_first() || control_.keeps(); }
  bool observes(std::int64_t step) const { return control_.observes(step); }
  std::int64_t thinned_segments(std::int64_t step) const { return control_.thinned_segments(step); }
  void begin_step(std::int64_t step);
  void use_threads(std::int32_t threads);
  void observe(std::span<const lockstep_watch_value> values);
  void observe_next(std::span<const lockstep_watch_value> values);

  /// Values in the memory of a GPU, which is not waited for: their rows are written, and so is all
  /// that is given after them, once it has measured them. Throws gpu::Unavailable, and has recorded
  /// nothing, if they must be copied first.
  void observe_on_gpu(std::span<const lockstep_watch_value> values, void* stream);
  void observe_next_on_gpu(std::span<const lockstep_watch_value> values, void* stream);
  void end_step();
  void end(const char* error);

  /// Notes why the rank is no longer observed.
  void give_up(const char* why) const;

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

  /// A tensor of the job, whose values are observed step by step.
  struct Described {
    Observation row;        ///< without values
    std::size_t bytes = 0;  ///< of a value, if it is compared
    /// How a GPU measures it, without its address; empty: its bytes are read, one by one.
    std::optional<gpu::TensorTask> task = {};
    bool may_need_bytes = false;  ///< even so
  };

  std::vector<Measured> measured(std::span<const lockstep_watch_value> values);
  const Described& tensor_of(const lockstep_watch_value& value) const;

  /// Values on a GPU, which measures some and copies the others. It has no more than the job's
  /// thread has to find out: rows are made of it later.
  struct OnGpu {
    struct Value {
      const Described* tensor;
      std::int64_t micro_batch;
    };
    std::vector<Value> values = {};
    std::vector<gpu::TensorTask> tasks = {};
    std::vector<std::size_t> measured = {};  ///< the values of the tasks
    std::vector<gpu::DeviceBytes> bytes = {};
    std::vector<std::size_t> copied = {};  ///< their values
  };

  static Described described_as(const Observation& described);
  OnGpu on_gpu(std::span<const lockstep_watch_value> values) const;

  /// Fills a row by the sums of its value. False, and nothing done, if that takes its bytes.
  static bool fill_by_sums(Measured& measured, const gpu::TensorSums& found);

  static std::vector<Measured> unmeasured_rows(const OnGpu& found);

  /// Fills what it can. Returns which rows are filled.
  static std::vector<bool> fill_by_kernel(const OnGpu& found, const gpu::Batch& batch,
                                          std::vector<Measured>& rows);

  /// The rows of all values.
  static std::vector<Measured> measured_rows(const OnGpu& found, const gpu::Batch& batch);

  std::vector<std::byte> copy_of(gpu::DeviceBytes from, void* stream);

  /// The rows of values that are too large to be copied in one go, or are stored.
  std::vector<Measured> waited_for(std::span<const lockstep_watch_value> values, const OnGpu& found,
                                   void* stream);

  using Append = void (RankWatch::*)(std::vector<Measured> rows);  ///< `append` or `append_next`
  void write(std::span<const lockstep_watch_value> values, Append add);
  void write_on_gpu(std::span<const lockstep_watch_value> values, void* stream, Append add);
  void append_next(std::vector<Measured> rows);

  /// Waits until all rows are written, at most so long if given. Throws Error (machine).
  void finish_work(std::optional<std::chrono::seconds> limit);

  /// The row of a value that has not been measured.
  static Measured unmeasured(const Described& tensor, std::int64_t micro_batch);

  /// Called by several threads.
  static void measure(const TensorBytes& bytes, Measured& measured);

  /// Whether the values of the step are stored without being asked for.
  bool is_first() const { return store_first_ > 0 && step_ <= store_first_; }

  /// Whether values may be stored.
  bool stores() const { return keeps() || keeps_before_; }

  /// Whether a value of `bytes` is stored, or copied because it may be. Notes which.
  bool is_copied(Measured& measured, std::uint64_t bytes);
  void copy_if_wanted(const lockstep_watch_value& value, Measured& measured);

  /// Writes rows of this step. If the step has one of them already, none is written.
  void append(std::vector<Measured> rows);

  /// Stores the copies of the current step once snapshots are asked for.
  void keep_copies();

  static TensorBytes bytes_of(const lockstep_watch_value& value, const Observation& row);
  void write_status(const RankStatus& status) const;
  std::filesystem::path facts_file() const;
  void write_facts() const;

  std::filesystem::path folder_;
  int rank_;
  int world_size_;
  bool is_created_;
  std::string identity_;
  WatchControl control_;
  mutable std::atomic<bool> is_keeping_ = false;  ///< as it was read last
  StepWriter writer_;
  std::deque<Described> tensors_;  ///< by number; none moves: another thread reads them
  std::size_t threads_ = 1;
  gpu::Measurer gpu_;
  std::vector<Measured> next_;  ///< of the step that begins next
  bool keeps_before_;
  std::int64_t store_first_;      ///< steps
  std::int64_t step_ = 0;         ///< that the rank began last
  std::vector<Measured> copies_;  ///< of this step, with their bytes, if `keeps_before_`
  /// What changes the members above after a call has returned; none of them is used before it is
  /// done, apart from `control_`, `tensors_`, `threads_` and `gpu_`, which it does not change.
  WorkInOrder work_;
};

}  // namespace lockstep
