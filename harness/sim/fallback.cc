#include "harness/sim/fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/op_registration/adaption.h>
#include <c10/core/DeviceGuard.h>

#include <optional>
#include <string>
#include <vector>

#include "harness/sim/device_runtime.h"
#include "harness/sim/host_aliases.h"

namespace lockstep::sim {
namespace {

using c10::IValue;
using MaybeTensor = std::optional<at::Tensor>;

/// Calls `visit(tensor)` for every tensor of an argument.
template <class Visit>
void for_each_tensor(const IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const MaybeTensor& tensor : value.toOptionalTensorList()) {
      if (tensor) visit(*tensor);
    }
  }
}

/// Replaces every tensor of an argument or result by `map(tensor)`.
template <class Map>
void map_tensors(IValue& value, const Map& map) {
  if (value.isTensor()) {
    value = map(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorList()) mapped.push_back(map(tensor));
    value = std::move(mapped);
  } else if (value.isOptionalTensorList()) {
    c10::List<MaybeTensor> mapped;
    for (const MaybeTensor& tensor : value.toOptionalTensorList()) {
      mapped.push_back(tensor ? MaybeTensor(map(*tensor)) : std::nullopt);
    }
    value = std::move(mapped);
  }
}

/// The rule of CUDA's kernels, in their words: all tensors are on one device. Exceptions are
/// indices and 0-dim CPU tensors that are only read.
class DeviceCheck {
 public:
  explicit DeviceCheck(const c10::OperatorHandle& op) : op_(op) {}

  void visit(const at::Tensor& tensor, const c10::Argument& argument, bool is_index) {
    if (!tensor.defined()) return;
    const c10::Device device = tensor.device();
    if (device.is_cpu() && (is_index || may_be_on_cpu(tensor, argument))) return;
    if (common_ && *common_ != device) refuse(tensor, argument);
    common_ = device;
  }

  const std::optional<c10::Device>& common() const { return common_; }

 private:
  static bool may_be_on_cpu(const at::Tensor& tensor, const c10::Argument& argument) {
    const bool is_written = argument.alias_info() && argument.alias_info()->isWrite();
    return tensor.dim() == 0 && !is_written;
  }

  [[noreturn]] void refuse(const at::Tensor& tensor, const c10::Argument& argument) const {
    TORCH_CHECK(!op_.hasTag(at::Tag::pointwise),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                *common_, " and ", tensor.device(), "!");
    const c10::OperatorName& name = op_.operator_name();
    const std::string method =
        "wrapper_SIM_" + name.overload_name + "_" + name.name.substr(name.name.find("::") + 2);
    c10::impl::common_device_check_failure(*common_, tensor, method.c_str(),
                                           argument.name().c_str());
    TORCH_INTERNAL_ASSERT(false, "the check did not fail");
  }

  const c10::OperatorHandle& op_;
  std::optional<c10::Device> common_;
};

bool is_sim_device(const IValue& value) {
  return value.isDevice() && value.toDevice().type() == kSim;
}

/// The device of the results.
c10::Device check_devices(const c10::OperatorHandle& op, at::ArrayRef<IValue> arguments) {
  DeviceCheck check(op);
  std::optional<c10::Device> asked;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = op.schema().arguments()[i];
    if (is_sim_device(arguments[i])) asked = arguments[i].toDevice();
    // `index`, `index_put` and similar: an index per dimension, or none.
    const bool is_index = argument.name() == "indices" && arguments[i].isOptionalTensorList();
    for_each_tensor(arguments[i],
                    [&](const at::Tensor& tensor) { check.visit(tensor, argument, is_index); });
  }
  if (check.common() && check.common()->type() == kSim) return *check.common();
  const c10::Device device = asked && asked->has_index() ? *asked : current_device();
  check_device(device.index());
  return device;
}

}  // namespace

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t arguments = op.schema().arguments().size();
  const std::size_t results = op.schema().returns().size();
  const c10::Device device = check_devices(op, torch::jit::last(*stack, arguments));
  const c10::DeviceGuard guard(device);

  HostAliases aliases;
  for (std::size_t i = 0; i < arguments; ++i) {
    IValue& argument = torch::jit::peek(*stack, i, arguments);
    if (is_sim_device(argument)) {
      argument = c10::Device(c10::DeviceType::CPU);
    } else {
      map_tensors(argument, [&](const at::Tensor& tensor) { return aliases.to_host(tensor); });
    }
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  aliases.take_over_changes();
  for (std::size_t i = 0; i < results; ++i) {
    map_tensors(torch::jit::peek(*stack, i, results),
                [&](const at::Tensor& tensor) { return aliases.to_device(tensor, device); });
  }
}

}  // namespace lockstep::sim
