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

void require_plain(const lockstep_watch_value& value, const std::string& name, std::size_t bytes) {
  if (value.strides) throw internal_error(fmt::format("'{}' on a GPU has strides", name));
  if (!value.data && bytes > 0) throw internal_error(fmt::format("'{}' has no address", name));
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

RankWatch::Described RankWatch::described_as(const Observation& described) {
  Described tensor{described};
  if (!described.not_comparable.empty()) return tensor;
  const DType dtype = *parse<DType>(described.dtype);
  tensor.bytes = static_cast<std::size_t>(element_count(described.local_shape)) * item_size(dtype);
  tensor.may_need_bytes = may_need_bytes(dtype);
  // Samples are told apart, one by one.
  if (described.kind != Kind::data) tensor.task = gpu::task_of(described, 0);
  return tensor;
}

RankWatch::OnGpu RankWatch::on_gpu(std::span<const lockstep_watch_value> values) const {
  OnGpu found;
  found.values.reserve(values.size());
  found.tasks.reserve(values.size());
  found.measured.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Described& tensor = tensor_of(values[i]);
    found.values.push_back({&tensor, values[i].micro_batch});
    if (!tensor.row.not_comparable.empty()) continue;
    require_plain(values[i], tensor.row.name, tensor.bytes);
    if (tensor.task) {
      found.tasks.push_back(*tensor.task);
      found.tasks.back().data = address_of(values[i]);
      found.measured.push_back(i);
    }
    if (!tensor.task || tensor.may_need_bytes) {
      found.bytes.push_back({address_of(values[i]), tensor.bytes});
      found.copied.push_back(i);
    }
  }
  return found;
}

std::vector<RankWatch::Measured> RankWatch::unmeasured_rows(const OnGpu& found) {
  std::vector<Measured> rows;
  rows.reserve(found.values.size());
  for (const OnGpu::Value& value : found.values) {
    rows.push_back(unmeasured(*value.tensor, value.micro_batch));
  }
  return rows;
}

std::vector<bool> RankWatch::fill_by_kernel(const OnGpu& found, const gpu::Batch& batch,
                                            std::vector<Measured>& rows) {
  std::vector<bool> are_filled(rows.size());
  for (std::size_t k = 0; k < found.tasks.size(); ++k) {
    const std::size_t i = found.measured[k];
    are_filled[i] = fill_by_sums(rows[i], batch.sums()[k]);
  }
  return are_filled;
}

std::vector<RankWatch::Measured> RankWatch::measured_rows(const OnGpu& found,
                                                          const gpu::Batch& batch) {
  std::vector<Measured> rows = unmeasured_rows(found);
  const std::vector<bool> are_filled = fill_by_kernel(found, batch, rows);
  for (std::size_t k = 0; k < found.copied.size(); ++k) {
    const std::size_t i = found.copied[k];
    if (!are_filled[i]) measure(TensorBytes(batch.copy(k)), rows[i]);
  }
  return rows;
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
                                                       const OnGpu& found, void* stream) {
  const auto batch = gpu_.start(found.tasks, {}, stream);
  gpu_.wait(*batch);
  std::vector<Measured> rows = unmeasured_rows(found);
  const std::vector<bool> are_filled = fill_by_kernel(found, *batch, rows);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Measured& measured = rows[i];
    if (!measured.row.not_comparable.empty()) continue;
    const std::size_t size = found.values[i].tensor->bytes;
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
    (this->*add)(waited_for(values, found, stream));
    return;
  }
  const std::shared_ptr<gpu::Batch> batch = gpu_.start(found.tasks, found.bytes, stream);
  const auto is_ready = [batch] { return is_done(*batch); };
  work_.add_once(is_ready, [this, add, batch, found = std::move(found)] {
    (this->*add)(measured_rows(found, *batch));
  });
}

}  // namespace lockstep
