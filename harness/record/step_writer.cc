#include "harness/record/step_writer.h"

#include <fmt/format.h>

#include <utility>

#include "harness/record/journal.h"
#include "harness/record/journal_segments.h"
#include "reports/base/error.h"

namespace lockstep {

StepWriter::StepWriter(std::filesystem::path folder, int rank, std::string identity,
                       KeepPolicy keep, std::int64_t segment_rows)
    : folder_(std::move(folder)),
      rank_(rank),
      identity_(std::move(identity)),
      keep_(keep),
      segment_rows_(segment_rows),
      journal_(journal_file(folder_, rank), identity_) {}

StepWriter::~StepWriter() {
  try {
    finish();
  } catch (...) {  // `finish` reports the error to callers that ask
  }
}

void StepWriter::begin_step(std::int64_t step) {
  if (step <= step_) {
    throw internal_error(fmt::format("step {} begun after step {}: steps count up", step, step_));
  }
  finish();
  if (segment_rows_ > 0 && rows_ - rows_before_segment_ >= segment_rows_) {
    journal_.begin_segment();
    sketch_file_.reset();
    rows_before_segment_ = rows_;
  }
  step_ = step;
  rows_before_step_ = rows_;
  kept_.clear();
}

void StepWriter::claim(const Observation& row) {
  const std::string key = snapshot_key(row);
  if (step_ == 0) throw internal_error(fmt::format("'{}' observed before the first step", key));
  std::int64_t& last = claimed_[key];
  if (last == step_) {
    throw internal_error(fmt::format("'{}' observed twice in step {}", key, step_));
  }
  last = step_;
}

void StepWriter::append(std::span<const Observation* const> rows) {
  journal_.append(rows);
  rows_ += static_cast<std::int64_t>(rows.size());
}

void StepWriter::keep(const Observation& row, std::vector<std::byte> bytes) {
  kept_[snapshot_key(row)] = {*parse<DType>(row.dtype), row.local_shape, std::move(bytes)};
  all_written_ = false;
}

void StepWriter::write_sketches(SketchesOfStep sketches) {
  if (sketches.empty()) return;
  if (!sketch_file_) {
    sketch_file_.emplace(segment_file(sketch_file(folder_, rank_), journal_.segment()), identity_);
  }
  for (auto& sketch : sketches) sketch.first += rows_ - rows_before_step_;
  sketch_file_->append(step_, sketches);
}

void StepWriter::finish() {
  journal_.finish();
  if (all_written_) return;
  write_safetensors(snapshot_file(folder_, rank_, step_), kept_, identity_);
  all_written_ = true;
}

}  // namespace lockstep
