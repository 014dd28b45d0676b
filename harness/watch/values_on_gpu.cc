#include <fmt/format.h>

#include <vector>

#include "harness/gpu/launch_plan.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "harness/record/statistics.h"
#include "harness/watch/rank_watch.h"
#include "reports/base/error.h"

namespace lockstep {
namespace {

std::uint64_t address_of(const lockstep_watch_value& value) {
  return reinterpret_cast<std::uint64_t>(value.data);
}

std::size_t size_of(const Observation& row) {
  return static_cast<std::size_t>(element_count(row.local_shape)) *
         item_size(*parse<DType>(row.dtype));
}

void require_plain(const lockstep_watch_value& value, const Observation& row) {
  if (value.strides) throw internal_error(fmt::format("'{}' on a GPU has strides", row.name));
  if (!value.data && size_of(row) > 0) {
    throw internal_error(fmt::format("'{}' has no address", row.name));
  }
}

/// Fills a row by the sums of its value. False, and nothing done, if that takes the value's bytes.
bool fill(Observation& row, std::optional<Sketch>& sketch, const gpu::TensorSums& found) {
  const DType dtype = *parse<DType>(row.dtype);
  const gpu::MeasuredSums measured = gpu::measured_sums(component_type(dtype), found);
  if (needs_bytes(dtype, measured.sums)) return false;
  row.digest = measured.digest;
  row.statistics = statistics(dtype, std::span<const std::byte>(), measured.sums);
  if (is_sketched(row)) sketch = Sketch{measured.sums.lanes};
  return true;
}

}  // namespace

std::vector<bool> RankWatch::measure_by_kernel(std::span<const lockstep_watch_value> values,
                                               void* stream, std::vector<Measured>& rows) {
  std::vector<gpu::TensorTask> tasks;
  std::vector<std::size_t> rows_of_tasks;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Observation& row = rows[i].row;
    if (!row.not_comparable.empty() || row.kind == Kind::data) continue;  // samples: one by one
    const auto task = gpu::task_of(row, address_of(values[i]));
    if (!task) continue;
    tasks.push_back(*task);
    rows_of_tasks.push_back(i);
  }
  const std::vector<gpu::TensorSums> found = gpu_.measure(tasks, stream);
  std::vector<bool> are_measured(rows.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    Measured& measured = rows[rows_of_tasks[k]];
    are_measured[rows_of_tasks[k]] = fill(measured.row, measured.sketch, found[k]);
  }
  return are_measured;
}

std::vector<RankWatch::Measured> RankWatch::measured_on_gpu(
    std::span<const lockstep_watch_value> values, void* stream) {
  std::vector<Measured> rows;
  for (const lockstep_watch_value& value : values) {
    const Observation& row = rows.emplace_back(unmeasured(value)).row;
    if (row.not_comparable.empty()) require_plain(value, row);
  }
  const std::vector<bool> are_measured = measure_by_kernel(values, stream, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].row.not_comparable.empty()) continue;
    const bool is_stored = is_copied(rows[i], size_of(rows[i].row));
    if (are_measured[i] && !is_stored) continue;
    std::vector<std::byte> copy(size_of(rows[i].row));
    gpu_.copy(address_of(values[i]), copy, stream);
    if (!are_measured[i]) measure(TensorBytes(copy), rows[i]);
    if (is_stored) rows[i].bytes = std::move(copy);
  }
  return rows;
}

}  // namespace lockstep
