#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/observe/named_tensor.h"

namespace at {
struct Generator;
}

namespace lockstep {

/// A part of a model: parameters, buffers and children by name, in registration order, like
/// torch.nn.Module. Layers compute with ATen's own differentiable functions.
class Module {
 public:
  virtual ~Module() = default;

  virtual at::Tensor forward(const at::Tensor& input) = 0;

  /// Calls the module: `forward`, after the effects of `run_on` and `wrap_calls`.
  at::Tensor operator()(const at::Tensor& input);

  /// From now on, calls of this module go to `around`, which receives the function that it
  /// replaces. The last wrapper runs first.
  using Forward = std::function<at::Tensor(const at::Tensor& input)>;
  void wrap_calls(
      std::function<at::Tensor(const at::Tensor& input, const Forward& forward)> around);

  /// From now on, calls of this module first move the input to `device`, as accelerate's hooks do.
  /// An out-of-memory error then names `name`. Moves no parameter.
  void run_on(at::Device device, std::string name);

  /// A part of a model and its name there.
  struct Part {
    std::string name;
    Module* module = nullptr;  ///< lives as long as its model
  };
  std::vector<Part> children() const;  ///< direct children, in order

  /// Parameters and buffers of this module, without its children's.
  std::vector<NamedTensor> own_tensors() const;
  const std::vector<NamedTensor>& own_parameters() const { return parameters_; }

  /// Own parameters first, then the children's, depth first. A tensor that appears twice is listed
  /// once, under its first name.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  std::vector<at::Tensor> parameters() const;
  std::vector<at::Tensor> buffers() const;

  /// Training or evaluation, for this and all children.
  void train(bool training = true);
  bool is_training() const { return training_; }

  /// Drops all gradients (`set_to_none`).
  void zero_grad();

  /// Converts floating parameters and buffers to `dtype`, in place, so every holder sees it. Call
  /// it before they are used.
  void to(at::ScalarType dtype);

  /// Moves parameters and buffers to `device`, in place. Call it before there are gradients.
  void to(at::Device device);

  /// Parameters of this and all children no longer require a gradient.
  void freeze();

 protected:
  /// Registers a leaf that requires a gradient; returns it.
  at::Tensor register_parameter(std::string name, at::Tensor value);
  at::Tensor register_buffer(std::string name, at::Tensor value);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> child) {
    children_.push_back({std::move(name), child});
    return child;
  }
  /// Replaces the child `name` by `child`, in the same position. Throws Error (internal) when there
  /// is none.
  std::shared_ptr<Module> replace_module(const std::string& name, std::shared_ptr<Module> child);

 private:
  struct Child {
    std::string name;
    std::shared_ptr<Module> module;
  };
  struct NamedDevice {
    at::Device device;
    std::string name;
  };
  at::Tensor forward_in_place(const at::Tensor& input);

  /// Appends the `own` tensors of this and all children to `all`, without duplicates.
  void collect(std::vector<NamedTensor> Module::*own, const std::string& prefix,
               std::vector<NamedTensor>& all) const;

  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<Child> children_;
  std::optional<NamedDevice> place_;
  Forward call_;  ///< runs on a call if calls are wrapped
  bool training_ = true;
};

/// From now on, collectives on these parameters and their gradients are logged under their names in
/// `module`.
void name_parameters(const Module& module);

/// Creates the replacement for a part of a model: `LoraLinear` around a `Linear`, for example.
using WrapModule = std::function<std::shared_ptr<Module>(std::shared_ptr<Module> module)>;

/// torch.nn.Linear: weight [out, in], bias [out] unless `has_bias` is false, float32, drawn from
/// `generator` like `reset_parameters`.
class Linear : public Module {
 public:
  Linear(std::int64_t in, std::int64_t out, const at::Generator& generator, bool has_bias = true);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., in] to [..., out]

  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

/// torch.nn.BatchNorm1d: weight and bias [features], buffers running_mean, running_var [features]
/// and num_batches_tracked (0-dim, int64).
class BatchNorm1d : public Module {
 public:
  explicit BatchNorm1d(std::int64_t features);
  at::Tensor forward(const at::Tensor& input) override;  ///< [batch, features]

 private:
  at::Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
};

/// torch.nn.Dropout: in training, each element is 0 with `probability`, otherwise multiplied by 1 /
/// (1 - probability). In evaluation it does nothing. Unlike torch's, the mask comes from a given
/// generator: one uniform number per element in row-major order, float32 for every dtype. So
/// consecutive blocks of rows get the mask of the whole.
class Dropout : public Module {
 public:
  /// Shares `generator` with its other users. Throws Error (internal) unless 0 <= `probability` <
  /// 1.
  Dropout(double probability, at::Generator generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< any shape

 private:
  double probability_;
  at::Generator generator_;
};

/// A separate CPU generator with `seed`: no global state.
at::Generator cpu_generator(std::uint64_t seed);

}  // namespace lockstep
