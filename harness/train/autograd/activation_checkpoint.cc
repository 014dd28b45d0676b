#include "harness/train/autograd/activation_checkpoint.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "harness/train/autograd/saved_tensor_hooks.h"
#include "harness/train/autograd/segment_rerun.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

namespace autograd = torch::autograd;
using Tensors = std::vector<at::Tensor>;
/// The type of autograd's pointers to nodes depends on the release of torch.
using GraphNode = decltype(autograd::Edge::function);

/// A node that no backward reaches. Its inputs are saved like those of any function.
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
  static GraphNode of(const Tensors& inputs) {
    return apply(at::empty({0}).requires_grad_(), at::TensorList(inputs)).grad_fn();
  }

  static Tensors unpack(autograd::Node& node) {
    return dynamic_cast<autograd::CppNode<SavedInputs>&>(node).ctx_.get_saved_variables();
  }
};

/// Thrown through the segment when all required tensors are recomputed. It is a std::exception,
/// because the segment may run a backward, and torch's engine cleans up only after those.
struct Enough : std::exception {
  const char* what() const noexcept override { return "all that is needed has been recomputed"; }
};

/// Properties that a recomputed tensor must share with the original.
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

/// A backward pass. An unpacking outside any pass counts as a pass of its own.
using PassId = std::int64_t;

PassId current_pass() {
  static std::atomic<PassId> next_outside = -1;
  const int id = autograd::get_current_graph_task_id();
  return id == -1 ? next_outside.fetch_sub(1) : id;
}

/// Autograd's stand-in for a tensor that the segment saved.
struct SavedPlace {
  explicit SavedPlace(const at::Tensor& saved) : likeness(saved) {}
  Likeness likeness;
  std::unordered_map<PassId, at::Tensor> recomputed;
};

/// A checkpoint. Its places keep it alive; it tracks only those still in use.
class Frame : public std::enable_shared_from_this<Frame> {
 public:
  Frame(GraphNode inputs, SegmentRerun rerun, bool early_stop)
      : inputs_(std::move(inputs)), rerun_(std::move(rerun)), early_stop_(early_stop) {}

  Tensors forward(const Tensors& inputs);

 private:
  /// One run of the segment.
  struct Refill {
    PassId pass;
    std::size_t saved = 0;
    bool outran_forward = false;  ///< a backward inside the segment's first run needed it
  };

  Unpack keep_place(const at::Tensor& saved);
  at::Tensor unpack(SavedPlace& place);
  void recompute(PassId pass);
  void run_again(Refill& refill, const Tensors& inputs);
  void put(Refill& refill, const at::Tensor& tensor);
  void check(const Refill& refill) const;
  void drop(PassId pass);

  GraphNode inputs_;
  SegmentRerun rerun_;
  bool early_stop_;
  bool is_forward_over_ = false;
  std::vector<std::weak_ptr<SavedPlace>> places_;  ///< in the order of saving
  std::set<PassId> recomputed_;
};

Tensors Frame::forward(const Tensors& inputs) {
  const SavedTensorHooks hooks([this](const at::Tensor& saved) { return keep_place(saved); });
  Tensors outputs = rerun_.forward(inputs);
  is_forward_over_ = true;
  return outputs;
}

Unpack Frame::keep_place(const at::Tensor& saved) {
  auto place = std::make_shared<SavedPlace>(saved);
  places_.push_back(place);
  return [frame = shared_from_this(), place = std::move(place)] { return frame->unpack(*place); };
}

at::Tensor Frame::unpack(SavedPlace& place) {
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
  stop_if_enough();  // again, in case the segment caught the first one
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

}  // namespace

std::vector<at::Tensor> checkpoint(const Segment& segment, const std::vector<at::Tensor>& inputs,
                                   const CheckpointOptions& options) {
  GraphNode saved_inputs = SavedInputs::of(inputs);
  if (!saved_inputs) return segment(inputs);
  return std::make_shared<Frame>(std::move(saved_inputs), SegmentRerun(segment, options),
                                 options.early_stop)
      ->forward(inputs);
}

at::Tensor checkpoint(const SegmentOfOne& segment, const at::Tensor& input,
                      const CheckpointOptions& options) {
  return checkpoint(segment_of_one(segment), Tensors{input}, options).front();
}

}  // namespace lockstep
