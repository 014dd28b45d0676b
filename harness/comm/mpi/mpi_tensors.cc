#include "harness/comm/mpi/mpi_tensors.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <limits>
#include <new>

namespace lockstep {

namespace {

/// The backend's own memory, as in other libraries: torch's allocator would count it as part of the
/// training.
at::Tensor staging(std::int64_t elements, at::ScalarType type) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * c10::elementSize(type);
  const auto release = [](void* memory) { ::operator delete(memory); };
  return at::from_blob(::operator new(bytes), {elements}, release, at::TensorOptions(type));
}

}  // namespace

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), "MPI: a tensor is undefined");
  TORCH_CHECK(tensor.device().is_cpu(), "MPI: takes tensors of the CPU, not of ", tensor.device());
  TORCH_CHECK(tensor.layout() == at::kStrided && tensor.is_contiguous(),
              "MPI: tensors must be dense and contiguous");
  TORCH_CHECK(tensor.numel() <= std::numeric_limits<int>::max(), "MPI: a tensor of ",
              tensor.numel(), " elements is too large; it counts them in 32 bits");
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "MPI: takes one tensor a rank, not ", tensors.size());
  check_tensor(tensors.front());
  return tensors.front();
}

const std::vector<at::Tensor>& list_of(const std::vector<std::vector<at::Tensor>>& lists,
                                       const at::Tensor& block, int count) {
  TORCH_CHECK(lists.size() == 1 && lists.front().size() == static_cast<std::size_t>(count),
              "MPI: takes one list of ", count, " tensors, one a rank");
  for (const at::Tensor& tensor : lists.front()) {
    check_tensor(tensor);
    TORCH_CHECK(
        tensor.numel() == block.numel() && tensor.scalar_type() == block.scalar_type(),
        "MPI: the tensors of a list must have the size and dtype of the one that goes with it");
  }
  return lists.front();
}

void check_blocks(const at::Tensor& whole, const at::Tensor& block, int count) {
  check_tensor(whole);
  check_tensor(block);
  TORCH_CHECK(whole.scalar_type() == block.scalar_type(),
              "MPI: input and output must have the same dtype");
  TORCH_CHECK(whole.numel() == count * block.numel(), "MPI: a tensor of ", whole.numel(),
              " elements is not ", count, " times one of ", block.numel());
}

at::Tensor room_for(const at::Tensor& tensor, std::int64_t count) {
  return staging(count * tensor.numel(), tensor.scalar_type());
}

at::Tensor packed(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(!tensors.empty(), "MPI: there is no tensor");
  for (const at::Tensor& tensor : tensors) check_tensor(tensor);
  if (tensors.size() == 1) return tensors.front();
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.scalar_type() == tensors.front().scalar_type(),
                "MPI: tensors that go together must have the same dtype");
    elements += tensor.numel();
  }
  at::Tensor whole = staging(elements, tensors.front().scalar_type());
  auto* to = static_cast<char*>(whole.data_ptr());
  for (const at::Tensor& tensor : tensors) {
    copy_bytes(to, tensor.data_ptr(), tensor.nbytes());
    to += tensor.nbytes();
  }
  check_tensor(whole);
  return whole;
}

void unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors) {
  const auto* from = static_cast<const char*>(packed.data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.data_ptr() != from) copy_bytes(tensor.data_ptr(), from, tensor.nbytes());
    from += tensor.nbytes();
  }
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace lockstep
