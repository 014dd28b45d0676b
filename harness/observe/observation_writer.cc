#include "harness/observe/observation_writer.h"

#include <utility>

#include "harness/observe/look_at.h"

namespace lockstep {

ObservationWriter::ObservationWriter(std::filesystem::path folder, int rank,
                                     ObservingOptions options)
    : digester_(options.digester ? std::move(options.digester) : std::make_unique<CpuDigester>()),
      writer_(std::move(folder), rank, std::move(options.identity), options.keep) {}

void ObservationWriter::begin_step(std::int64_t step) {
  writer_.begin_step(step);
  micro_batch_ = 0;
}

void ObservationWriter::observe(Phase phase, Kind kind, std::span<const NamedTensor> tensors) {
  std::vector<Observation> rows;
  rows.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) rows.push_back(row_of(phase, kind, tensor));
  std::vector<DigestTask> tasks = tasks_for(tensors, rows);
  digester_->digest(tasks);
  std::vector<const Observation*> of_journal;
  for (const Observation& row : rows) of_journal.push_back(&row);
  writer_.append(of_journal);
  for (DigestTask& task : tasks) {
    if (task.wants_bytes) writer_.keep(*task.row, std::move(task.bytes));
  }
}

/// The row without the results of its value.
Observation ObservationWriter::row_of(Phase phase, Kind kind, const NamedTensor& tensor) {
  Observation row = describe(tensor.tensor, tensor.shard);
  row.step = writer_.step();
  row.micro_batch = micro_batch_;
  row.phase = phase;
  row.kind = kind;
  row.name = tensor.name;
  row.replica_group = tensor.replica_group;
  const bool has_no_gradient = kind == Kind::gradient && !tensor.tensor.defined();
  if (has_no_gradient) row.not_comparable = row.not_comparable + ": no gradient";
  writer_.claim(row);
  return row;
}

/// One task per comparable tensor.
std::vector<DigestTask> ObservationWriter::tasks_for(std::span<const NamedTensor> tensors,
                                                     std::vector<Observation>& rows) {
  std::vector<DigestTask> tasks;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].not_comparable.empty()) continue;
    const at::Tensor& tensor = tensors[i].tensor;
    tasks.push_back({tensor, &rows[i], writer_.wants(tensor.nbytes())});
  }
  return tasks;
}

}  // namespace lockstep
