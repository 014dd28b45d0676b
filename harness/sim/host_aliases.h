#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::sim {

/// CPU aliases of the tensors of one call: same memory, no copies. Tensors that share a storage on
/// a device share it on the CPU, too. So views, in-place changes, out-variants and overlap checks
/// keep their meaning.
class HostAliases {
 public:
  /// `tensor` itself unless it is on a virtual device.
  at::Tensor to_host(const at::Tensor& tensor);

  /// Call after the operator: applies its resizes, new strides and new storages to the device
  /// tensors. Throws c10::OutOfMemoryError.
  void take_over_changes();

  /// A result of the call on `device`. New memory is charged to it, memory of an argument is not
  /// charged again. Throws c10::OutOfMemoryError.
  at::Tensor to_device(const at::Tensor& result, c10::Device device);

 private:
  struct StoragePair {
    c10::Storage device, host;
  };
  struct TensorPair {
    at::Tensor device, host;
  };

  c10::Storage host_of(const c10::Storage& device);
  c10::Storage device_of(const c10::Storage& host, c10::Device device);
  static void take_over(const StoragePair& pair);
  void take_over(const TensorPair& pair);

  std::vector<StoragePair> storages_;
  std::vector<TensorPair> tensors_;
};

}  // namespace lockstep::sim
