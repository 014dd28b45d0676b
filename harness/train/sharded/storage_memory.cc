#include "harness/train/sharded/storage_memory.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>

namespace lockstep {

namespace {

void set_storage_bytes(const at::Tensor& tensor, std::size_t bytes) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() == bytes) return;
  const c10::DeviceGuard guard(tensor.device());
  storage->set_data_ptr_noswap(bytes == 0 ? c10::DataPtr(nullptr, tensor.device())
                                          : storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

}  // namespace

void allocate_storage(const at::Tensor& tensor) { set_storage_bytes(tensor, tensor.nbytes()); }

void release_storage(const at::Tensor& tensor) { set_storage_bytes(tensor, 0); }

}  // namespace lockstep
