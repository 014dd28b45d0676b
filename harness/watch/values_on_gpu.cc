#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "harness/gpu/launch_plan.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "harness/record/statistics.h"
#include "harness/watch/rank_watch.h"
#include "reports/base/error.h"

namespace lockstep {
namespace {

constexpr std::size_t kCopied = std::size_t{16} << 20;  // bytes at once

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

std::size_t size_of(const std::vector<gpu::DeviceBytes>& all) {
  std::size_t size = 0;
  for (const gpu::DeviceBytes& bytes : all) size += bytes.size;
  return size;
}

/// As `Batch::is_done`, but values that are lost are a failure of the machine: it is too late to
/// copy them.
bool is_done(const gpu::Batch& batch) {
  try {
    return batch.is_done();
  } catch (const gpu::Unavailable& reason) {
    throw gpu_failed(
        fmt::format("did not measure the values that it was given ({})", reason.what()));
  }
}

}  // namespace

bool RankWatch::fill_by_sums(Measured& measured, const gpu::TensorSums& found) {
  Observation& row = measured.row;
  const DType dtype = *parse<DType>(row.dtype);
  const gpu::MeasuredSums sums = gpu::measured_sums(component_type(dtype), found);
  if (needs_bytes(dtype, sums.sums)) return false;
  row.digest = sums.digest;
  row.statistics = statistics(dtype, std::span<const std::byte>(), sums.sums);
  if (is_sketched(row)) measured.sketch = Sketch{sums.sums.lanes};
  return true;
}

RankWatch::OnGpu RankWatch::on_gpu(std::span<const lockstep_watch_value> values) const {
  OnGpu found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Observation& row = found.rows.emplace_back(unmeasured(values[i])).row;
    if (!row.not_comparable.empty()) continue;
    require_plain(values[i], row);
    std::optional<gpu::TensorTask> task;  // none: samples are told apart, one by one
    if (row.kind != Kind::data) task = gpu::task_of(row, address_of(values[i]));
    if (task) {
      found.tasks.push_back(*task);
      found.measured.push_back(i);
    }
    if (!task || may_need_bytes(*parse<DType>(row.dtype))) {
      found.bytes.push_back({address_of(values[i]), size_of(row)});
      found.copied.push_back(i);
    }
  }
  return found;
}

std::vector<bool> RankWatch::fill_by_kernel(OnGpu& values, const gpu::Batch& batch) {
  std::vector<bool> are_filled(values.rows.size());
  for (std::size_t k = 0; k < values.tasks.size(); ++k) {
    const std::size_t i = values.measured[k];
    are_filled[i] = fill_by_sums(values.rows[i], batch.sums()[k]);
  }
  return are_filled;
}

void RankWatch::fill(OnGpu& values, const gpu::Batch& batch) {
  const std::vector<bool> are_filled = fill_by_kernel(values, batch);
  for (std::size_t k = 0; k < values.copied.size(); ++k) {
    const std::size_t i = values.copied[k];
    if (!are_filled[i]) measure(TensorBytes(batch.copy(k)), values.rows[i]);
  }
}

std::vector<std::byte> RankWatch::copy_of(gpu::DeviceBytes from, void* stream) {
  std::vector<std::byte> copy;
  copy.reserve(from.size);
  while (from.size > 0) {
    const gpu::DeviceBytes part{from.data, std::min(from.size, kCopied)};
    const auto batch = gpu_.start({}, {&part, 1}, stream);
    gpu_.wait(*batch);
    copy.insert(copy.end(), batch->copy(0).begin(), batch->copy(0).end());
    from = {from.data + part.size, from.size - part.size};
  }
  return copy;
}

std::vector<RankWatch::Measured> RankWatch::waited_for(std::span<const lockstep_watch_value> values,
                                                       OnGpu found, void* stream) {
  std::vector<Measured> rows;
  const auto batch = gpu_.start(found.tasks, {}, stream);
  gpu_.wait(*batch);
  const std::vector<bool> are_filled = fill_by_kernel(found, *batch);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Measured& measured = rows.emplace_back(std::move(found.rows[i]));
    if (!measured.row.not_comparable.empty()) continue;
    const std::size_t size = size_of(measured.row);
    const bool is_stored = is_copied(measured, size);
    if (are_filled[i] && !is_stored) continue;
    std::vector<std::byte> copy = copy_of({address_of(values[i]), size}, stream);
    if (!are_filled[i]) measure(TensorBytes(copy), measured);
    if (is_stored) measured.bytes = std::move(copy);
  }
  return rows;
}

void RankWatch::write_on_gpu(std::span<const lockstep_watch_value> values, void* stream,
                             Append add) {
  work_.require_success();  // else its batches stay
  OnGpu found = on_gpu(values);
  if (stores() || size_of(found.bytes) > kCopied) {
    finish_work({});
    keep_copies();
    (this->*add)(waited_for(values, std::move(found), stream));
    return;
  }
  const std::shared_ptr<gpu::Batch> batch = gpu_.start(found.tasks, found.bytes, stream);
  const auto is_ready = [batch] { return is_done(*batch); };
  work_.add_once(is_ready, [this, add, batch, found = std::move(found)]() mutable {
    fill(found, *batch);
    (this->*add)(std::move(found.rows));
  });
}

}  // namespace lockstep
