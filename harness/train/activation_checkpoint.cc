#include "harness/train/activation_checkpoint.h"

#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "harness/train/autocast.h"
#include "harness/train/saved_tensor_hooks.h"
#include "reports/error.h"

namespace lockstep {

namespace {

namespace autograd = torch::autograd;
using Tensors = std::vector<at::Tensor>;

/// Where generators stand. Kept as generators, which take no memory of tensors.
class RandomState {
 public:
  explicit RandomState(const std::vector<at::Generator>& generators) : generators_(generators) {
    for (at::Generator& generator : generators_) {
      const std::lock_guard lock(generator.mutex());
      states_.push_back(generator.clone());
    }
  }

  void restore() const {
    for (std::size_t i = 0; i < generators_.size(); ++i) {
      at::Generator generator = generators_[i];
      const std::lock_guard lock(generator.mutex());
      generator.set_state(states_[i].get_state());
    }
  }

  const std::vector<at::Generator>& generators() const { return generators_; }

 private:
  std::vector<at::Generator> generators_;
  std::vector<at::Generator> states_;
};

class RandomScope {
 public:
  explicit RandomScope(const RandomState& state) : before_(state.generators()) { state.restore(); }
  ~RandomScope() { before_.restore(); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomState before_;
};

/// A segment and what its forward ran under.
class Rerun {
 public:
  Rerun(Segment segment, const CheckpointOptions& options) : segment_(std::move(segment)) {
    if (options.restore_random) random_.emplace(options.generators);
    if (options.restore_autocast) autocast_ = autocast_state();
  }

  Tensors forward(const Tensors& inputs) const { return segment_(inputs); }

  /// Records the segment, under what its forward ran under.
  Tensors again(const Tensors& inputs) const {
    std::optional<RandomScope> random;
    if (random_) random.emplace(*random_);
    std::optional<AutocastScope> autocast;
    if (autocast_) autocast.emplace(*autocast_);
    const at::AutoGradMode with_grad(true);
    return segment_(inputs);
  }

 private:
  Segment segment_;
  std::optional<RandomState> random_;
  std::optional<AutocastState> autocast_;
};

// Re-entrant

struct KeptRerun : torch::CustomClassHolder {
  explicit KeptRerun(Rerun kept) : rerun(std::move(kept)) {}
  Rerun rerun;
};

Tensors detached(const Tensors& saved) {
  Tensors leaves;
  for (const at::Tensor& tensor : saved) {
    leaves.push_back(tensor.detach().requires_grad_(tensor.requires_grad()));
  }
  return leaves;
}

/// Backward of what the recomputed segment gave, on to its leaves: its inputs and parameters.
void nested_backward(const Tensors& outputs, const Tensors& gradients) {
  Tensors roots, gradients_of_roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    gradients_of_roots.push_back(gradients.at(i));
  }
  if (roots.empty()) {
    throw internal_error(
        "no output of a checkpointed segment requires a gradient, there is nothing to recompute");
  }
  autograd::backward(roots, gradients_of_roots);
}

class Reentrant : public autograd::Function<Reentrant> {
 public:
  static autograd::variable_list forward(autograd::AutogradContext* context,
                                         const c10::intrusive_ptr<KeptRerun>& kept,
                                         at::TensorList inputs) {
    context->saved_data["rerun"] = c10::IValue::make_capsule(kept);
    context->save_for_backward(inputs.vec());
    return kept->rerun.forward(inputs.vec());
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    if (!autograd::Engine::get_default_engine().is_checkpoint_valid()) {
      throw internal_error(
          "a re-entrant checkpoint cannot give chosen gradients, it gives those of all leaves");
    }
    const auto kept = context->saved_data["rerun"].toCapsule();
    const Tensors leaves = detached(context->get_saved_variables());
    nested_backward(c10::static_intrusive_pointer_cast<KeptRerun>(kept)->rerun.again(leaves),
                    gradients);
    autograd::variable_list gradients_of_inputs = {at::Tensor()};  // of the rerun
    for (const at::Tensor& leaf : leaves) gradients_of_inputs.push_back(leaf.grad());
    return gradients_of_inputs;
  }
};

// Not re-entrant

/// A node that no backward reaches: it has inputs saved as autograd saves those of any function.
class SavedInputs : public autograd::Function<SavedInputs> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& /*starter*/,
                            at::TensorList inputs) {
    context->save_for_backward(inputs.vec());
    return at::empty({0});
  }

  static autograd::variable_list backward(autograd::AutogradContext* /*context*/,
                                          const autograd::variable_list& /*gradients*/) {
    throw internal_error("a backward reached the saved inputs of a checkpoint");
  }

  /// Null without grad mode.
  static std::shared_ptr<autograd::Node> of(const Tensors& inputs) {
    return apply(at::empty({0}).requires_grad_(), at::TensorList(inputs)).grad_fn();
  }

  static Tensors unpack(autograd::Node& node) {
    return dynamic_cast<autograd::CppNode<SavedInputs>&>(node).ctx_.get_saved_variables();
  }
};

/// Thrown through the segment when all that is needed has been recomputed. A std::exception, since
/// the segment may run a backward, and torch's engine cleans up after those only.
struct Enough : std::exception {
  const char* what() const noexcept override { return "all that is needed has been recomputed"; }
};

/// What a recomputed tensor has to have in common with the first.
struct Likeness {
  explicit Likeness(const at::Tensor& tensor)
      : shape(tensor.sizes().vec()), dtype(tensor.scalar_type()), device(tensor.device()) {}
  bool operator==(const Likeness&) const = default;

  std::string text() const {
    return fmt::format("{} [{}] on {}", c10::toString(dtype), fmt::join(shape, ", "), device.str());
  }

  std::vector<std::int64_t> shape;
  at::ScalarType dtype;
  at::Device device;
};

/// A backward pass; also an unpacking outside of any, which is one of its own.
using PassId = std::int64_t;

PassId current_pass() {
  static std::atomic<PassId> next_outside = -1;
  const int id = autograd::get_current_graph_task_id();
  return id == -1 ? next_outside.fetch_sub(1) : id;
}

/// What autograd keeps of a tensor that the segment saved.
struct Place {
  explicit Place(const at::Tensor& saved) : likeness(saved) {}
  Likeness likeness;
  std::unordered_map<PassId, at::Tensor> recomputed;
};

/// A checkpoint. Kept by the places that it gave out, of which it knows only those still in use.
class Frame : public std::enable_shared_from_this<Frame> {
 public:
  Frame(std::shared_ptr<autograd::Node> inputs, Rerun rerun, bool early_stop)
      : inputs_(std::move(inputs)), rerun_(std::move(rerun)), early_stop_(early_stop) {}

  Tensors forward(const Tensors& inputs);

 private:
  /// One run of the segment.
  struct Refill {
    PassId pass;
    std::size_t saved = 0;
    bool outran_forward = false;  ///< a backward inside of the segment's first run needed it
  };

  Unpack keep_place(const at::Tensor& saved);
  at::Tensor unpack(Place& place);
  void recompute(PassId pass);
  void run_again(Refill& refill, const Tensors& inputs);
  void put(Refill& refill, const at::Tensor& tensor);
  void check(const Refill& refill) const;
  void drop(PassId pass);

  std::shared_ptr<autograd::Node> inputs_;
  Rerun rerun_;
  bool early_stop_;
  bool is_forward_over_ = false;
  std::vector<std::weak_ptr<Place>> places_;  ///< in the order in which they were saved
  std::set<PassId> recomputed_;
};

Tensors Frame::forward(const Tensors& inputs) {
  const SavedTensorHooks hooks([this](const at::Tensor& saved) { return keep_place(saved); });
  Tensors outputs = rerun_.forward(inputs);
  is_forward_over_ = true;
  return outputs;
}

Unpack Frame::keep_place(const at::Tensor& saved) {
  auto place = std::make_shared<Place>(saved);
  places_.push_back(place);
  return [frame = shared_from_this(), place = std::move(place)] { return frame->unpack(*place); };
}

at::Tensor Frame::unpack(Place& place) {
  const PassId pass = current_pass();
  if (recomputed_.count(pass) == 0) recompute(pass);
  auto node = place.recomputed.extract(pass);
  if (node.empty()) {
    throw internal_error(
        "a tensor of a checkpoint was unpacked twice in one backward: it is recomputed once");
  }
  return node.mapped();
}

void Frame::recompute(PassId pass) {
  const Tensors inputs = SavedInputs::unpack(*inputs_);
  Refill refill{pass};
  try {
    run_again(refill, inputs);
    check(refill);
  } catch (...) {
    drop(pass);
    throw;
  }
  recomputed_.insert(pass);
}

void Frame::run_again(Refill& refill, const Tensors& inputs) {
  const SavedTensorHooks hooks([&](const at::Tensor& saved) -> Unpack {
    const at::Tensor tensor = saved.detach();
    put(refill, tensor);
    return [tensor] { return tensor; };
  });
  try {
    rerun_.again(inputs);
  } catch (const Enough&) {
  }
}

void Frame::put(Refill& refill, const at::Tensor& tensor) {
  const auto stop_if_enough = [&] {
    if (early_stop_ && refill.saved == places_.size()) throw Enough();
  };
  stop_if_enough();  // again, where the segment caught the first one
  if (refill.saved < places_.size()) {
    if (const auto place = places_[refill.saved].lock()) place->recomputed[refill.pass] = tensor;
  } else if (!is_forward_over_) {
    refill.outran_forward = true;
  }
  ++refill.saved;
  stop_if_enough();
}

void Frame::check(const Refill& refill) const {
  if (refill.outran_forward) return;
  if (refill.saved != places_.size()) {
    throw internal_error(
        fmt::format("a checkpointed segment saved {} tensors in forward and {} when it was run "
                    "again: it did not do the same",
                    places_.size(), refill.saved));
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const auto place = places_[i].lock();
    if (!place) continue;
    const Likeness found(place->recomputed.at(refill.pass));
    if (found == place->likeness) continue;
    throw internal_error(
        fmt::format("a checkpointed segment saved {} in forward and {} when it was run again: it "
                    "did not do the same",
                    place->likeness.text(), found.text()));
  }
}

void Frame::drop(PassId pass) {
  for (const auto& weak : places_) {
    if (const auto place = weak.lock()) place->recomputed.erase(pass);
  }
}

Segment of_one(const SegmentOfOne& segment) {
  return [segment](const Tensors& inputs) { return Tensors{segment(inputs.front())}; };
}

}  // namespace

std::vector<at::Tensor> checkpoint_reentrant(const Segment& segment,
                                             const std::vector<at::Tensor>& inputs,
                                             const CheckpointOptions& options) {
  return Reentrant::apply(c10::make_intrusive<KeptRerun>(Rerun(segment, options)),
                          at::TensorList(inputs));
}

at::Tensor checkpoint_reentrant(const SegmentOfOne& segment, const at::Tensor& input,
                                const CheckpointOptions& options) {
  return checkpoint_reentrant(of_one(segment), Tensors{input}, options).front();
}

std::vector<at::Tensor> checkpoint(const Segment& segment, const std::vector<at::Tensor>& inputs,
                                   const CheckpointOptions& options) {
  std::shared_ptr<autograd::Node> saved_inputs = SavedInputs::of(inputs);
  if (!saved_inputs) return segment(inputs);
  return std::make_shared<Frame>(std::move(saved_inputs), Rerun(segment, options),
                                 options.early_stop)
      ->forward(inputs);
}

at::Tensor checkpoint(const SegmentOfOne& segment, const at::Tensor& input,
                      const CheckpointOptions& options) {
  return checkpoint(of_one(segment), Tensors{input}, options).front();
}

}  // namespace lockstep
