#include "harness/observe/observation_writer.h"

#include <fmt/format.h>

#include <utility>

#include "harness/observe/look_at.h"
#include "reports/base/error.h"

namespace lockstep {

ObservationWriter::ObservationWriter(std::filesystem::path folder, int rank,
                                     ObservingOptions options)
    : folder_(std::move(folder)),
      rank_(rank),
      options_(std::move(options)),
      journal_(journal_file(folder_, rank), options_.identity) {
  if (!options_.digester) options_.digester = std::make_unique<CpuDigester>();
}

ObservationWriter::~ObservationWriter() {
  try {
    finish();
  } catch (...) {  // `finish` reports the error to callers that ask
  }
}

void ObservationWriter::begin_step(std::int64_t step) {
  if (step <= step_) {
    throw internal_error(fmt::format("step {} begun after step {}: steps count up", step, step_));
  }
  finish();
  step_ = step;
  micro_batch_ = 0;
  keys_.clear();
  kept_.clear();
}

void ObservationWriter::observe(Phase phase, Kind kind, std::span<const NamedTensor> tensors) {
  std::vector<Observation> rows;
  rows.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) rows.push_back(row_of(phase, kind, tensor));
  std::vector<DigestTask> tasks = tasks_for(tensors, rows);
  options_.digester->digest(tasks);
  append(rows);
  keep(std::move(tasks));
}

/// The row without the results of its value.
Observation ObservationWriter::row_of(Phase phase, Kind kind, const NamedTensor& tensor) {
  Observation row = describe(tensor.tensor, tensor.shard);
  row.step = step_;
  row.micro_batch = micro_batch_;
  row.phase = phase;
  row.kind = kind;
  row.name = tensor.name;
  row.replica_group = tensor.replica_group;
  const bool has_no_gradient = kind == Kind::gradient && !tensor.tensor.defined();
  if (has_no_gradient) row.not_comparable += ": no gradient";
  note_key(snapshot_key(row));
  return row;
}

void ObservationWriter::note_key(const std::string& key) {
  if (step_ == 0) throw internal_error(fmt::format("'{}' observed before the first step", key));
  if (!keys_.insert(key).second) {
    throw internal_error(fmt::format("'{}' observed twice in step {}", key, step_));
  }
}

/// One task per comparable tensor.
std::vector<DigestTask> ObservationWriter::tasks_for(std::span<const NamedTensor> tensors,
                                                     std::vector<Observation>& rows) {
  std::vector<DigestTask> tasks;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].not_comparable.empty()) continue;
    const at::Tensor& tensor = tensors[i].tensor;
    tasks.push_back({tensor, &rows[i], options_.keep.take(tensor.nbytes())});
  }
  return tasks;
}

void ObservationWriter::append(const std::vector<Observation>& rows) {
  for (const Observation& row : rows) {
    journal_.append(row);
    ++rows_;
  }
}

void ObservationWriter::keep(std::vector<DigestTask> tasks) {
  for (DigestTask& task : tasks) {
    if (!task.wants_bytes) continue;
    kept_[snapshot_key(*task.row)] = {*parse<DType>(task.row->dtype), task.row->local_shape,
                                      std::move(task.bytes)};
    all_written_ = false;
  }
}

void ObservationWriter::finish() {
  journal_.finish();
  if (all_written_) return;
  write_safetensors(snapshot_file(folder_, rank_, step_), kept_, options_.identity);
  all_written_ = true;
}

}  // namespace lockstep
