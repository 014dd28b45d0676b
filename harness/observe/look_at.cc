#include "harness/observe/look_at.h"

#include <c10/util/StringUtil.h>

#include <string>
#include <utility>

#include "harness/observe/digester.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"

namespace lockstep {

namespace {

std::string dtype_name(const at::Tensor& tensor) {
  return std::string(c10::getDtypeNames(tensor.scalar_type()).first);
}

bool is_freed(const at::Tensor& tensor) {
  return tensor.numel() > 0 && tensor.storage().nbytes() == 0;
}

/// Why the shape of `tensor` is unavailable; empty if it is available.
std::string reason_without_shape(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (tensor.unsafeGetTensorImpl()->is_python_dispatch()) return "a tensor subclass in Python";
  if (tensor.is_nested()) return "nested";
  return "";
}

/// Why the bytes of `tensor` cannot be compared; empty if they can.
std::string reason_without_bytes(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) return c10::str(tensor.layout(), " layout");
  if (tensor.is_meta()) return "a meta tensor";
  if (tensor.is_quantized()) return "quantized dtype " + dtype_name(tensor);
  if (!parse<DType>(dtype_name(tensor))) return "dtype " + dtype_name(tensor);
  if (!tensor.has_storage()) return "no storage";
  if (is_freed(tensor)) return "its storage is freed";
  return "";
}

void place(Observation& observation, const at::Tensor& tensor, const std::optional<Shard>& shard) {
  observation.local_shape = tensor.sizes().vec();
  const Shard where = shard.value_or(
      Shard{observation.local_shape, Shape(observation.local_shape.size(), std::int64_t{0})});
  observation.global_shape = where.global_shape;
  observation.offset = where.offset;
  require_inside(observation);
}

}  // namespace

Observation describe(const at::Tensor& tensor, const std::optional<Shard>& shard) {
  Observation observation;
  observation.not_comparable = reason_without_shape(tensor);
  if (tensor.defined()) observation.dtype = dtype_name(tensor);
  if (!observation.not_comparable.empty()) return observation;
  place(observation, tensor, shard);
  observation.not_comparable = reason_without_bytes(tensor);
  return observation;
}

Observation look_at(const at::Tensor& tensor, const std::optional<Shard>& shard,
                    std::vector<std::byte>* bytes) {
  Observation observation = describe(tensor, shard);
  if (!observation.not_comparable.empty()) return observation;
  DigestTask task{tensor, &observation, bytes != nullptr};
  CpuDigester().digest({&task, 1});
  if (bytes) *bytes = std::move(task.bytes);
  return observation;
}

}  // namespace lockstep
