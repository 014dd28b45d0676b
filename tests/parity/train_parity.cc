// Numbers of harness/train for train_parity.py, which recomputes them with Python's torch.
//
// train_parity FILE: writes FILE as a safetensors file.

#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/observe/look_at.h"
#include "harness/record/snapshots.h"
#include "harness/train/loop/sampler.h"
#include "harness/train/nn/lora.h"
#include "harness/train/nn/module.h"
#include "harness/train/nn/swiglu.h"
#include "harness/train/nn/transformer.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/optim/clip_grad_norm.h"
#include "harness/train/optim/muon.h"
#include "harness/train/optim/optimizer.h"

namespace lockstep {
namespace {

const std::vector<at::ScalarType> kDTypes{at::kFloat, at::kDouble, at::kBFloat16};

class Numbers {
 public:
  void put(const std::string& key, const at::Tensor& tensor) {
    SnapshotTensor& kept = numbers_[key];
    const Observation seen = look_at(tensor, std::nullopt, &kept.bytes);
    kept.dtype = *parse<DType>(seen.dtype);
    kept.shape = seen.local_shape;
  }
  void put_all(const std::string& key, const std::vector<NamedTensor>& named) {
    for (const NamedTensor& entry : named) put(key + "/" + entry.name, entry.tensor);
  }
  /// Of all parameters that have one.
  void put_gradients(const std::string& key, const Module& module) {
    for (const NamedTensor& entry : module.named_parameters()) {
      if (entry.tensor.grad().defined()) put(key + "/" + entry.name, entry.tensor.grad());
    }
  }
  void write(const std::string& path) const { write_safetensors(path, numbers_); }

 private:
  std::map<std::string, SnapshotTensor> numbers_;
};

at::Tensor normal(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType dtype = at::kFloat) {
  return at::randn(shape, cpu_generator(seed), dtype);
}

void sample(Numbers& numbers, std::int64_t size, int world, std::uint64_t seed, bool shuffle,
            bool drop_last) {
  for (int rank = 0; rank < world; ++rank) {
    DistributedSampler sampler(size, world, rank, seed, shuffle, drop_last);
    for (const std::int64_t epoch : {0, 1, 7}) {
      sampler.set_epoch(epoch);
      numbers.put(fmt::format("sampler/{}/{}/{}/{}/{:d}/{:d}/{}", size, world, rank, seed, shuffle,
                              drop_last, epoch),
                  at::tensor(sampler.indices(), at::kLong));
    }
  }
}

void samplers(Numbers& numbers) {
  for (const std::int64_t size : {0, 1, 2, 5, 8, 9, 24, 101}) {
    for (const int world : {1, 2, 3, 8}) {
      for (const std::uint64_t seed : {0, 42}) {
        for (const bool shuffle : {true, false}) {
          for (const bool drop_last : {false, true}) {
            sample(numbers, size, world, seed, shuffle, drop_last);
          }
        }
      }
    }
  }
}

// Sizes on both sides of a vector register, to cover its tail, too.
std::vector<at::Tensor> parameters(at::ScalarType dtype) {
  const std::vector<std::vector<std::int64_t>> shapes{{}, {3}, {4, 4}, {17, 31}};
  std::vector<at::Tensor> result;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    result.push_back(normal(shapes[i], 10 + i, dtype).requires_grad_());
  }
  return result;
}

/// Each parameter lacks its gradient in one step of three, the second one in the first step.
void set_gradients(const std::vector<at::Tensor>& parameters, std::uint64_t step) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    parameter.mutable_grad() =
        (step + i) % 3 == 2 ? at::Tensor()
                            : normal(parameter.sizes(), 100 * step + i, parameter.scalar_type());
  }
}

void adamw(Numbers& numbers, const std::string& name, const AdamWOptions& options) {
  for (const at::ScalarType dtype : kDTypes) {
    const std::vector<at::Tensor> trained = parameters(dtype);
    AdamW optimizer(trained, /*learning_rate=*/0.01, options);
    for (std::uint64_t step = 1; step <= 6; ++step) {
      if (step == 4) optimizer.set_learning_rate(0.003);
      set_gradients(trained, step);
      optimizer.step();
      for (std::size_t i = 0; i < trained.size(); ++i) {
        numbers.put(
            fmt::format("adamw/{}/{}/{}/{}", name, c10::getDtypeNames(dtype).first, step, i),
            trained[i]);
      }
    }
  }
}

void muon(Numbers& numbers) {
  const std::vector<std::vector<std::int64_t>> shapes{{4, 4}, {17, 31}, {31, 17}};
  for (const at::ScalarType dtype : kDTypes) {
    std::vector<at::Tensor> trained;
    for (const auto& shape : shapes) {
      trained.push_back(normal(shape, 10 + trained.size(), dtype).requires_grad_());
    }
    Muon optimizer(trained, /*learning_rate=*/0.01);
    for (std::uint64_t step = 1; step <= 6; ++step) {
      if (step == 4) optimizer.set_learning_rate(0.003);
      set_gradients(trained, step);
      optimizer.step();
      for (std::size_t i = 0; i < trained.size(); ++i) {
        numbers.put(fmt::format("muon/{}/{}/{}", c10::getDtypeNames(dtype).first, step, i),
                    trained[i]);
      }
    }
  }
}

void clip(Numbers& numbers) {
  for (const at::ScalarType dtype : kDTypes) {
    for (const double max_norm : {0.125, 3.0, 1e4}) {
      const std::vector<at::Tensor> clipped = parameters(dtype);
      set_gradients(clipped, 1);
      const std::string key = fmt::format("clip/{}/{}", c10::getDtypeNames(dtype).first, max_norm);
      numbers.put(key + "/norm", at::full({}, clip_grad_norm(clipped, max_norm), at::kDouble));
      for (std::size_t i = 0; i < clipped.size(); ++i) {
        if (clipped[i].grad().defined()) {
          numbers.put(fmt::format("{}/{}", key, i), clipped[i].grad());
        }
      }
    }
  }
}

/// With weights other than 1 and 0, unlike those of a norm.
void layer(Numbers& numbers, const std::string& name, Module& module) {
  std::uint64_t seed = 20;
  {
    const c10::NoGradGuard no_grad;
    for (at::Tensor& parameter : module.parameters()) {
      parameter.copy_(normal(parameter.sizes(), seed++));
    }
  }
  const at::Tensor input = normal({2, 5, 12}, 1).requires_grad_();
  const at::Tensor output = module.forward(input);
  output.backward(normal({2, 5, 12}, 2));
  const std::string key = "layer/" + name;
  numbers.put(key + "/output", output);
  numbers.put(key + "/input_gradient", input.grad());
  numbers.put_gradients(key + "/gradient", module);
}

void layers(Numbers& numbers) {
  const at::Generator generator = cpu_generator(3);
  LayerNorm norm(12);
  layer(numbers, "norm", norm);
  Mlp mlp(12, 20, generator);
  layer(numbers, "mlp", mlp);
  SelfAttention attention(12, 3, generator);
  layer(numbers, "attention", attention);
  TransformerBlock block(12, 3, 20, generator);
  layer(numbers, "block", block);
  RmsNorm rms_norm(12);
  layer(numbers, "rms_norm", rms_norm);
  SwiGlu swiglu(12, 20, generator);
  layer(numbers, "swiglu", swiglu);
  SwiGlu polynomial(12, 20, generator, GateActivation::identity);
  layer(numbers, "polynomial", polynomial);
  LoraLinear lora(std::make_shared<Linear>(12, 12, generator), {.rank = 3, .alpha = 5}, generator);
  layer(numbers, "lora", lora);
  CausalSelfAttention causal_attention(12, 3, generator);
  layer(numbers, "causal_attention", causal_attention);
}

/// A training like a scenario's; the numbers at its start show the order of the parameters.
void training(Numbers& numbers, const std::string& optimizer_name) {
  TimeSeriesTransformer model({}, cpu_generator(7));
  const auto named = model.named_parameters();
  for (std::size_t i = 0; i < named.size(); ++i) {
    numbers.put(fmt::format("training/{}/initial/{:02}/{}", optimizer_name, i, named[i].name),
                named[i].tensor);
  }
  const auto optimizer = make_optimizer(optimizer_name, model.parameters(), 0.01);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const std::string key = fmt::format("training/{}/{}", optimizer_name, step);
    model.zero_grad();
    const at::Tensor logits = model.forward(normal({6, 64}, 100 * step));
    const at::Tensor targets = at::randint(4, {6}, cpu_generator(200 * step), at::kLong);
    const at::Tensor loss = at::cross_entropy_loss(logits, targets);
    loss.backward();
    numbers.put(key + "/logits", logits);
    numbers.put(key + "/loss", loss);
    numbers.put(key + "/norm", at::full({}, clip_grad_norm(model.parameters(), 0.5), at::kDouble));
    numbers.put_gradients(key + "/gradient", model);
    optimizer->step();
    numbers.put_all(key + "/parameter", named);
  }
}

void put_step(Numbers& numbers, const std::string& key, VisionLanguageModel& model,
              std::uint64_t step) {
  const at::ScalarType dtype = model.parameters().front().scalar_type();
  const at::Tensor text = at::randint(32, {3, 5}, cpu_generator(200 * step), at::kLong);
  const at::Tensor logits = model.forward(normal({3, 2, 8, 12}, 100 * step).to(dtype), text);
  const at::Tensor loss = next_token_loss(logits, text);
  loss.backward();
  numbers.put(key + "/logits", logits);
  numbers.put(key + "/loss", loss);
  numbers.put_gradients(key + "/gradient", model);
}

void vision_language(Numbers& numbers, const std::string& name, VisionLanguageOptions options) {
  options.channels = 2;
  options.width = 12;
  for (const at::ScalarType dtype : kDTypes) {
    VisionLanguageModel model(options, cpu_generator(7));
    model.to(dtype);
    const std::string key =
        fmt::format("vision_language/{}/{}", name, c10::getDtypeNames(dtype).first);
    const auto named = model.named_parameters();
    for (std::size_t i = 0; i < named.size(); ++i) {
      numbers.put(fmt::format("{}/initial/{:02}/{}", key, i, named[i].name), named[i].tensor);
    }
    const auto optimizer = make_optimizer("adamw", model.parameters(), 0.01);
    for (std::uint64_t step = 1; step <= 2; ++step) {
      model.zero_grad();
      put_step(numbers, fmt::format("{}/{}", key, step), model, step);
      optimizer->step();
    }
  }
}

void vision_language_models(Numbers& numbers) {
  vision_language(numbers, "tied", {});
  vision_language(numbers, "untied", {.tied_head = false});
  vision_language(numbers, "polynomial", {.activation = GateActivation::identity});
  vision_language(numbers, "shared", {.language_blocks = 3, .shared_blocks = true});
  vision_language(numbers, "lora", {.lora = LoraOptions{}});
  vision_language(
      numbers, "lora_untied",
      {.tied_head = false, .lora = LoraOptions{.rank = 3, .alpha = 5, .draws_b = true}});
}

void compute(const std::string& path) {
  Numbers numbers;
  samplers(numbers);
  adamw(numbers, "default", {});
  adamw(numbers, "other", {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1});
  muon(numbers);
  clip(numbers);
  layers(numbers);
  training(numbers, "adamw");
  training(numbers, "sgd");
  vision_language_models(numbers);
  numbers.write(path);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  at::set_num_threads(1);
  try {
    lockstep::compute(argc == 2 ? argv[1] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
