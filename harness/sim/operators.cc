#include "harness/sim/operators.h"

#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "harness/sim/device_runtime.h"
#include "harness/sim/fallback.h"
#include "harness/sim/host_aliases.h"
#include "harness/sim/memory.h"

namespace lockstep::sim {
namespace {

using at::Tensor;
using c10::Device;
using c10::DispatchKey;
using c10::IntArrayRef;
using std::optional;

constexpr c10::DispatchKeySet kKeys(DispatchKey::PrivateUse1);

/// The current device if none, or no index, is requested.
Device resolve(optional<Device> device) {
  const Device resolved = device && device->has_index() ? *device : current_device();
  check_device(resolved.index());
  return resolved;
}

void check_plain(optional<at::Layout> layout, optional<bool> is_pinned) {
  TORCH_CHECK(c10::layout_or_default(layout) == at::kStrided,
              "sim error: virtual devices hold strided tensors only");
  TORCH_CHECK(!c10::pinned_memory_or_default(is_pinned), "Only dense CPU tensors can be pinned");
}

Tensor empty(IntArrayRef size, optional<at::ScalarType> dtype, optional<at::Layout> layout,
             optional<Device> device, optional<bool> is_pinned, optional<at::MemoryFormat> format) {
  check_plain(layout, is_pinned);
  const c10::DeviceGuard guard(resolve(device));
  return at::detail::empty_generic(size, allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, optional<at::ScalarType> dtype,
                     optional<at::Layout> layout, optional<Device> device,
                     optional<bool> is_pinned) {
  check_plain(layout, is_pinned);
  const c10::DeviceGuard guard(resolve(device));
  return at::detail::empty_strided_generic(size, stride, allocator(), kKeys,
                                           c10::dtype_or_default(dtype));
}

Tensor zeros(IntArrayRef size, optional<at::ScalarType> dtype, optional<at::Layout> layout,
             optional<Device> device, optional<bool> is_pinned) {
  return at::zeros(size, dtype, layout, resolve(device), is_pinned);
}

/// The only place that moves data between devices.
Tensor copy_from(const Tensor& from, const Tensor& to, bool /*non_blocking*/) {
  HostAliases aliases;
  const Tensor host_to = aliases.to_host(to);
  host_to.copy_(aliases.to_host(from));
  return to;
}

void make_room(const Tensor& tensor, std::int64_t offset, IntArrayRef size) {
  const auto elements = static_cast<std::size_t>(c10::multiply_integers(size));
  const std::size_t needed =
      elements == 0 ? 0 : (static_cast<std::size_t>(offset) + elements) * tensor.element_size();
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (storage.nbytes() < needed) resize_storage(storage, needed);
}

const Tensor& resize_tensor(const Tensor& self, IntArrayRef size,
                            optional<at::MemoryFormat> format) {
  if (self.sizes() == size && !format) return self;
  make_room(self, self.storage_offset(), size);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  if (format && *format != at::MemoryFormat::Preserve) impl->empty_tensor_restride(*format);
  return self;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  resize_tensor(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

Tensor view_of(const Tensor& self, IntArrayRef size, IntArrayRef stride, std::int64_t offset) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(), self.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
  return view;
}

Tensor as_strided(const Tensor& self, IntArrayRef size, IntArrayRef stride,
                  optional<std::int64_t> offset) {
  const Tensor view = view_of(self, size, stride, self.storage_offset());
  // Checks, as on every device, that the storage is large enough.
  at::native::setStrided(view, size, stride, offset.value_or(self.storage_offset()));
  return view;
}

Tensor reshape_alias(const Tensor& self, IntArrayRef size, IntArrayRef stride) {
  return view_of(self, size, stride, self.storage_offset());
}

Tensor& set_storage(Tensor& self, at::Storage source, std::int64_t offset, IntArrayRef size,
                    IntArrayRef stride) {
  TORCH_CHECK(source.device() == self.device(),
              "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", source.device(), "\".");
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  if (stride.data() == nullptr || (stride.empty() && !size.empty())) {
    make_room(self, offset, size);
    impl->set_sizes_contiguous(size);
    impl->set_storage_offset(offset);
  } else {
    impl->set_sizes_and_strides(size, stride, offset);
  }
  return self;
}

Tensor& set_whole_storage(Tensor& self, at::Storage source) {
  const auto elements = static_cast<std::int64_t>(source.nbytes() / self.element_size());
  return set_storage(self, std::move(source), 0, {elements}, {});
}

Tensor& set_to_tensor(Tensor& self, const Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                     source.strides());
}

Tensor& set_to_nothing(Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  at::Storage nothing(at::Storage::use_byte_size_t(), 0, allocator()->allocate(0), allocator(),
                      /*resizable=*/true);
  return set_storage(self, std::move(nothing), 0, {0}, {});
}

/// The check behind `set_data`, and so behind every move of a parameter between CPU and devices.
bool may_share_variable(const Tensor& self, const Tensor& from) {
  const auto is_dense = [](const Tensor& tensor) {
    return tensor.layout() == at::kStrided && (tensor.is_cpu() || tensor.device().type() == kSim);
  };
  return is_dense(self) && is_dense(from);
}

// Composite code chooses these by device type. They choose as for the CPU.

/// The same check as in CUDA's kernels of this name.
void check_same_device(const char* method,
                       std::initializer_list<std::pair<const Tensor*, const char*>> arguments) {
  const c10::Device device = arguments.begin()->first->device();
  for (const auto& [tensor, name] : arguments) {
    if (tensor->defined() && tensor->device() != device) {
      c10::impl::common_device_check_failure(device, *tensor, method, name);
    }
  }
}

Tensor convolution(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                   bool is_transposed, IntArrayRef output_padding, std::int64_t groups) {
  const Tensor given_bias = bias.value_or(Tensor());
  check_same_device("wrapper_SIM__convolution",
                    {{&input, "input"}, {&weight, "weight"}, {&given_bias, "bias"}});
  HostAliases aliases;
  const optional<Tensor> host_bias = bias ? optional<Tensor>(aliases.to_host(*bias)) : std::nullopt;
  return aliases.to_device(
      at::convolution(aliases.to_host(input), aliases.to_host(weight), host_bias, stride, padding,
                      dilation, is_transposed, output_padding, groups),
      input.device());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& gradient, const Tensor& input, const Tensor& weight, IntArrayRef stride,
    IntArrayRef padding, IntArrayRef dilation, bool is_transposed, IntArrayRef output_padding,
    std::int64_t groups, std::array<bool, 3> mask) {
  check_same_device("wrapper_SIM__convolution_backward",
                    {{&gradient, "grad_output"}, {&input, "input"}, {&weight, "weight"}});
  HostAliases aliases;
  const std::int64_t channels = is_transposed ? weight.size(1) * groups : weight.size(0);
  const auto gradients = at::convolution_backward(
      aliases.to_host(gradient), aliases.to_host(input), aliases.to_host(weight),
      mask[2] ? at::OptionalIntArrayRef(channels) : std::nullopt, stride, padding, dilation,
      is_transposed, output_padding, groups, mask);
  const auto back = [&](const Tensor& tensor) { return aliases.to_device(tensor, input.device()); };
  return {back(std::get<0>(gradients)), back(std::get<1>(gradients)), back(std::get<2>(gradients))};
}

Tensor dropout(const Tensor& input, double probability, bool is_training) {
  TORCH_CHECK(probability >= 0 && probability <= 1,
              "dropout probability has to be between 0 and 1, but got ", probability);
  if (probability == 0 || !is_training || input.numel() == 0) return input;
  if (probability == 1) return input.mul(at::zeros({}, input.options()));
  return input.mul(at::empty_like(input).bernoulli_(1 - probability).div_(1 - probability));
}

// Libraries are kept, because registrations must outlive the engine's threads.
torch::Library& library(const char* space, DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, space, key, __FILE__, __LINE__);
}

torch::CppFunction fallback() { return torch::CppFunction::makeFromBoxedFunction<&run_on_host>(); }

void register_own_kernels(torch::Library& aten) {
  aten.impl("empty.memory_format", TORCH_FN(empty));
  aten.impl("empty_strided", TORCH_FN(empty_strided));
  aten.impl("_efficientzerotensor", TORCH_FN(zeros));
  aten.impl("_copy_from", TORCH_FN(copy_from));
  aten.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  aten.impl("resize_", TORCH_FN(resize_tensor));
  aten.impl("as_strided", TORCH_FN(as_strided));
  aten.impl("_reshape_alias", TORCH_FN(reshape_alias));
  aten.impl("set_", TORCH_FN(set_to_nothing));
  aten.impl("set_.source_Tensor", TORCH_FN(set_to_tensor));
  aten.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  aten.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  aten.impl("_has_compatible_shallow_copy_type", TORCH_FN(may_share_variable));
  aten.impl("convolution_overrideable", TORCH_FN(convolution));
  aten.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
}

/// Products of matrices compute in autocast's dtype, as those of a GPU do.
void register_autocast(torch::Library& m) {  // the name is that of torch's macro
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(mv, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(baddbmm, lower_precision_fp)
}

/// Mirrors every CPU kernel. Otherwise an operator with both a CPU and a composite kernel would use
/// the composite one. That takes precedence over a fallback and gives other bits.
void mirror_host_kernels(torch::Library& aten) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name :
       dispatcher.getRegistrationsForDispatchKey(DispatchKey::CPU)) {
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || name.getNamespace() != "aten") continue;
    if (op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) continue;
    aten.impl(c10::toString(name).c_str(), fallback());
  }
}

}  // namespace

void register_operators() {
  torch::Library& aten = library("aten", DispatchKey::PrivateUse1);
  register_own_kernels(aten);
  mirror_host_kernels(aten);
  library("_", DispatchKey::PrivateUse1).fallback(fallback());
  library("_", DispatchKey::AutocastPrivateUse1).fallback(torch::CppFunction::makeFallthrough());
  register_autocast(library("aten", DispatchKey::AutocastPrivateUse1));
  library("aten", DispatchKey::AutogradPrivateUse1).impl("dropout", TORCH_FN(dropout));
  // A copy carries the conjugate and negative bits itself; resolving them first would copy.
  for (const DispatchKey key : {DispatchKey::Conjugate, DispatchKey::Negative}) {
    torch::Library& copies = library("aten", key);
    copies.impl("_copy_from", torch::CppFunction::makeFallthrough());
    copies.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
  }
}

}  // namespace lockstep::sim
