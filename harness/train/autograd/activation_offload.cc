#include "harness/train/autograd/activation_offload.h"

#include <ATen/core/grad_mode.h>

#include "harness/train/autograd/activation_memory.h"

namespace lockstep {

namespace {

bool is_parameter(const at::Tensor& tensor) {
  const at::TensorBase& owner = tensor.is_view() ? tensor._base() : tensor;
  return owner.is_leaf() && owner.requires_grad();
}

at::Tensor copy_to_host(const at::Tensor& tensor) {
  const HostMemory host;
  return tensor.is_cpu() ? tensor.clone() : tensor.to(at::kCPU);
}

at::Tensor copy_back(const at::Tensor& kept, at::Device device) {
  const at::NoGradGuard no_grad;
  return device.is_cpu() ? kept.clone() : kept.to(device);
}

Unpack offload(const at::Tensor& saved) {
  const at::Tensor detached = saved.detach();
  if (is_parameter(saved)) return [detached] { return detached; };
  return
      [kept = copy_to_host(detached), device = saved.device()] { return copy_back(kept, device); };
}

}  // namespace

OffloadScope::OffloadScope() : hooks_(offload) {}

}  // namespace lockstep
