#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::sim {

/// The tensors of one call as the CPU's kernels see them: same memory, nothing is copied. What is
/// one storage or one tensor on the devices is one on the CPU too, so that views, in-place changes,
/// out-variants and checks for overlap mean the same.
class HostAliases {
 public:
  /// `tensor` itself unless it is on a virtual device.
  at::Tensor to_host(const at::Tensor& tensor);

  /// After the call: what it resized, restrided or gave another storage becomes so on the devices.
  /// Throws c10::OutOfMemoryError.
  void take_over_changes();

  /// A result of the call on `device`; new memory is charged to it, that of an argument not again.
  /// Throws c10::OutOfMemoryError.
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
