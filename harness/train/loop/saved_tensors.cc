#include "harness/train/loop/saved_tensors.h"

#include <c10/core/GradMode.h>

#include <cstddef>

namespace lockstep {

std::vector<at::Tensor> saved_tensors(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> saved;
  for (const at::Tensor& tensor : tensors) saved.push_back(tensor.detach().clone());
  return saved;
}

void load_tensors(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& saved) {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(saved.at(i));
}

}  // namespace lockstep
