#include "harness/sim/host_aliases.h"

#include <c10/core/TensorImpl.h>

#include <utility>

#include "harness/sim/device_runtime.h"
#include "harness/sim/memory.h"

namespace lockstep::sim {
namespace {

bool is_same(const c10::Storage& a, const c10::Storage& b) {
  return a.unsafeGetStorageImpl() == b.unsafeGetStorageImpl();
}

at::Tensor with_storage(const at::Tensor& like, c10::Storage storage, c10::DispatchKey key) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                         c10::DispatchKeySet(key), like.dtype());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (like.is_conj()) tensor._set_conj(true);
  if (like.is_neg()) tensor._set_neg(true);
  return tensor;
}

}  // namespace

at::Tensor HostAliases::to_host(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kSim) return tensor;
  for (const TensorPair& pair : tensors_) {
    if (pair.device.is_same(tensor)) return pair.host;
  }
  TORCH_CHECK(tensor.layout() == at::kStrided, "sim error: a tensor of layout ", tensor.layout(),
              "; virtual devices hold strided tensors only");
  at::Tensor host = with_storage(tensor, host_of(tensor.storage()), c10::DispatchKey::CPU);
  tensors_.push_back({tensor, host});
  return host;
}

at::Tensor HostAliases::to_device(const at::Tensor& result, c10::Device device) {
  if (!result.defined() || result.device().type() != c10::DeviceType::CPU) return result;
  for (const TensorPair& pair : tensors_) {
    if (pair.host.is_same(result)) return pair.device;
  }
  return with_storage(result, device_of(result.storage(), device), c10::DispatchKey::PrivateUse1);
}

c10::Storage HostAliases::host_of(const c10::Storage& device) {
  for (const StoragePair& pair : storages_) {
    if (is_same(pair.device, device)) return pair.host;
  }
  storages_.push_back({device, host_storage(device)});
  return storages_.back().host;
}

c10::Storage HostAliases::device_of(const c10::Storage& host, c10::Device device) {
  for (const StoragePair& pair : storages_) {
    if (is_same(pair.host, host)) return pair.device;
  }
  storages_.push_back({adopt(host, device), host});
  return storages_.back().device;
}

void HostAliases::take_over_changes() {
  for (const StoragePair& pair : storages_) take_over(pair);
  for (const TensorPair& pair : std::vector<TensorPair>(tensors_)) take_over(pair);
}

void HostAliases::take_over(const StoragePair& pair) {
  c10::StorageImpl& device = *pair.device.unsafeGetStorageImpl();
  if (device.data() != pair.host.data()) {
    replace_memory(device, pair.host);
  } else if (device.nbytes() != pair.host.nbytes()) {
    device.set_nbytes(pair.host.nbytes());
  }
}

void HostAliases::take_over(const TensorPair& pair) {
  c10::TensorImpl* impl = pair.device.unsafeGetTensorImpl();
  if (!is_same(host_of(pair.device.storage()), pair.host.storage())) {
    impl->set_storage_keep_dtype(device_of(pair.host.storage(), pair.device.device()));
  }
  const at::Tensor& host = pair.host;
  if (pair.device.sizes() != host.sizes() || pair.device.strides() != host.strides() ||
      pair.device.storage_offset() != host.storage_offset()) {
    impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  }
}

}  // namespace lockstep::sim
