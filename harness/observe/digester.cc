#include "harness/observe/digester.h"

#include <c10/core/GradMode.h>

#include "harness/record/measure.h"

namespace lockstep {

namespace {

/// A row-major copy on the CPU; the tensor itself if it already is.
at::Tensor plain(const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

}  // namespace

void CpuDigester::digest(std::span<DigestTask> tasks) {
  for (DigestTask& task : tasks) {
    const at::Tensor copy = plain(task.tensor);
    const std::span<const std::byte> seen = bytes_of(copy);
    measure(*task.row, seen);
    if (task.wants_bytes) task.bytes.assign(seen.begin(), seen.end());
  }
}

}  // namespace lockstep
