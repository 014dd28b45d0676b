#include "harness/train/nn/module.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/comm/tensor_names.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(named.size());
  for (const NamedTensor& entry : named) tensors.push_back(entry.tensor);
  return tensors;
}

/// Bound of torch.nn.init.kaiming_uniform_ with a = sqrt(5), rounded at the same points as torch.
double kaiming_bound(std::int64_t fan_in) {
  const double slope = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1.0 + slope * slope));
  return std::sqrt(3.0) * (gain / std::sqrt(static_cast<double>(fan_in)));
}

at::Tensor uniform(at::IntArrayRef shape, double bound, const at::Generator& generator) {
  return at::empty(shape).uniform_(-bound, bound, generator);
}

}  // namespace

void Module::collect(std::vector<NamedTensor> Module::*own, const std::string& prefix,
                     std::vector<NamedTensor>& all) const {
  for (const NamedTensor& entry : this->*own) {
    const bool is_listed = std::any_of(all.begin(), all.end(), [&](const NamedTensor& other) {
      return other.tensor.is_same(entry.tensor);
    });
    if (!is_listed) all.push_back({prefix + entry.name, entry.tensor});
  }
  for (const Child& child : children_) child.module->collect(own, prefix + child.name + ".", all);
}

at::Tensor Module::operator()(const at::Tensor& input) {
  return call_ ? call_(input) : forward_in_place(input);
}

void Module::wrap_calls(
    std::function<at::Tensor(const at::Tensor& input, const Forward& forward)> around) {
  Forward inner =
      call_ ? call_ : [this](const at::Tensor& input) { return forward_in_place(input); };
  call_ = [around = std::move(around), inner = std::move(inner)](const at::Tensor& input) {
    return around(input, inner);
  };
}

at::Tensor Module::forward_in_place(const at::Tensor& input) {
  if (!place_) return forward(input);
  try {
    return forward(input.to(place_->device));
  } catch (c10::OutOfMemoryError& error) {
    error.add_context(
        fmt::format("while module '{}' ran on {}", place_->name, place_->device.str()));
    throw;
  }
}

void Module::run_on(at::Device device, std::string name) {
  place_ = NamedDevice{device, std::move(name)};
}

std::vector<Module::Part> Module::children() const {
  std::vector<Part> parts;
  for (const Child& child : children_) parts.push_back({child.name, child.module.get()});
  return parts;
}

std::vector<NamedTensor> Module::own_tensors() const {
  std::vector<NamedTensor> own = parameters_;
  own.insert(own.end(), buffers_.begin(), buffers_.end());
  return own;
}

std::vector<NamedTensor> Module::named_parameters() const {
  std::vector<NamedTensor> all;
  collect(&Module::parameters_, "", all);
  return all;
}

std::vector<NamedTensor> Module::named_buffers() const {
  std::vector<NamedTensor> all;
  collect(&Module::buffers_, "", all);
  return all;
}

void name_parameters(const Module& module) {
  for (const NamedTensor& entry : module.named_parameters())
    name_parameter(entry.tensor, entry.name);
}

std::vector<at::Tensor> Module::parameters() const { return tensors_of(named_parameters()); }

std::vector<at::Tensor> Module::buffers() const { return tensors_of(named_buffers()); }

void Module::train(bool training) {
  training_ = training;
  for (const Child& child : children_) child.module->train(training);
}

void Module::zero_grad() {
  for (at::Tensor& parameter : parameters()) parameter.mutable_grad() = at::Tensor();
}

at::Tensor Module::register_parameter(std::string name, at::Tensor value) {
  parameters_.push_back({std::move(name), value.detach().requires_grad_(true)});
  // Until the containing model sets its own name.
  const NamedTensor& parameter = parameters_.back();
  name_parameter(parameter.tensor, fmt::format("{}#{}", parameter.name, parameters_named() + 1));
  return parameter.tensor;
}

at::Tensor Module::register_buffer(std::string name, at::Tensor value) {
  buffers_.push_back({std::move(name), std::move(value)});
  return buffers_.back().tensor;
}

std::shared_ptr<Module> Module::replace_module(const std::string& name,
                                               std::shared_ptr<Module> child) {
  const auto found = std::find_if(children_.begin(), children_.end(),
                                  [&](const Child& other) { return other.name == name; });
  if (found == children_.end()) throw internal_error("a module has no part called '" + name + "'");
  found->module = std::move(child);
  return found->module;
}

void Module::to(at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& tensor : parameters()) tensor.set_data(tensor.to(dtype));
  for (at::Tensor& tensor : buffers()) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(dtype));
  }
}

void Module::to(at::Device device) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& tensor : parameters()) tensor.set_data(tensor.to(device));
  for (at::Tensor& tensor : buffers()) tensor.set_data(tensor.to(device));
}

void Module::freeze() {
  for (at::Tensor& parameter : parameters()) parameter.requires_grad_(false);
}

Linear::Linear(std::int64_t in, std::int64_t out, const at::Generator& generator, bool has_bias)
    : weight_(register_parameter("weight", uniform({out, in}, kaiming_bound(in), generator))) {
  if (!has_bias) return;
  bias_ = register_parameter("bias",
                             uniform({out}, 1.0 / std::sqrt(static_cast<double>(in)), generator));
}

at::Tensor Linear::forward(const at::Tensor& input) { return at::linear(input, weight_, bias_); }

BatchNorm1d::BatchNorm1d(std::int64_t features)
    : weight_(register_parameter("weight", at::ones({features}))),
      bias_(register_parameter("bias", at::zeros({features}))),
      running_mean_(register_buffer("running_mean", at::zeros({features}))),
      running_var_(register_buffer("running_var", at::ones({features}))),
      num_batches_tracked_(register_buffer("num_batches_tracked", at::zeros({}, at::kLong))) {}

at::Tensor BatchNorm1d::forward(const at::Tensor& input) {
  if (is_training()) num_batches_tracked_.add_(1);
  return at::batch_norm(input, weight_, bias_, running_mean_, running_var_, is_training(),
                        /*momentum=*/0.1, /*eps=*/1e-5, /*cudnn_enabled=*/true);
}

Dropout::Dropout(double probability, at::Generator generator)
    : probability_(probability), generator_(std::move(generator)) {
  if (!(probability >= 0 && probability < 1)) {
    throw internal_error(fmt::format("dropout with probability {}", probability));
  }
}

at::Tensor Dropout::forward(const at::Tensor& input) {
  if (!is_training() || probability_ == 0) return input;
  // The generator is the CPU's, so the mask is drawn there: the same on every device.
  const at::Tensor drawn =
      at::empty(input.sizes(), at::kFloat).uniform_(0, 1, generator_).to(input.device());
  const at::Tensor noise = drawn.ge(probability_).to(input.scalar_type()).div_(1 - probability_);
  return input * noise;
}

at::Generator cpu_generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

}  // namespace lockstep
