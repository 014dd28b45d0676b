#include <cmath>
#include <span>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/tensor_stream.h"
#include "harness/record/measure.h"
#include "harness/record/shard_runs.h"

namespace lockstep {

MeasuredTensor measure_tensor(const CheckpointTensor& tensor) {
  MeasuredTensor sums;
  Observation part;  // of the elements in a row
  part.dtype = name(tensor.dtype);
  part.global_shape = {element_count(tensor.shape)};
  part.offset = {0};
  TensorStream stream(tensor);
  const std::size_t item = item_size(tensor.dtype);
  for (;;) {
    const std::span<const std::byte> bytes = stream.next(TensorStream::kBlockBytes / item);
    if (bytes.empty()) return sums;
    part.local_shape = {static_cast<std::int64_t>(bytes.size() / item)};
    sums.sketch += measure_and_sketch(part, bytes);
    sums.digest += part.digest;
    sums.non_finite += part.statistics.non_finite;
    sums.norm = std::hypot(sums.norm, part.statistics.norm);
    part.offset = {part.offset[0] + part.local_shape[0]};
  }
}

}  // namespace lockstep
