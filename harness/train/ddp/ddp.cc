#include "harness/train/ddp/ddp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <limits>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

namespace lockstep {

namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// torch broadcasts parameters and buffers in pieces of this size.
constexpr std::size_t kBroadcastBytes = 250 * 1024 * 1024;

Group share(c10d::ProcessGroup& group) { return Group::unsafe_reclaim_from_nonowning(&group); }

/// Payload of a graph node: the callback for when backward reaches it.
struct BackwardStart : torch::CustomClassHolder {
  explicit BackwardStart(std::function<void()> f) : run(std::move(f)) {}
  std::function<void()> run;
};

/// torch's `_DDPSink`: the outputs pass through it, so their part of backward begins here. An
/// output that the loss does not use gets no gradient instead of zeros.
class Sink : public torch::autograd::Function<Sink> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const c10::intrusive_ptr<BackwardStart>& start,
                                                at::TensorList outputs) {
    context->set_materialize_grads(false);
    context->saved_data["start"] = c10::IValue::make_capsule(start);
    torch::autograd::variable_list clones;
    for (const at::Tensor& output : outputs) clones.push_back(output.clone());
    return clones;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto start = context->saved_data["start"].toCapsule();
    c10::static_intrusive_pointer_cast<BackwardStart>(start)->run();
    gradients.insert(gradients.begin(), at::Tensor());
    return gradients;
  }
};

class BlockingHook : public c10d::CppCommHookInterface<CommHook> {
 public:
  BlockingHook(CommHook hook, ProcessGroup& group)
      : CppCommHookInterface(std::move(hook)), group_(group) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    auto reduced = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
    reduced->markCompleted(state_(group_, bucket.getBuffer()));
    return reduced;
  }

 private:
  ProcessGroup& group_;
};

/// Bytes of the buckets before they are rebuilt in the order of the first backward. If they will be
/// rebuilt, everything is one bucket until then.
std::vector<std::size_t> bucket_limits(const DdpOptions& options) {
  if (options.static_graph || !options.find_unused_parameters) {
    return {static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())};
  }
  if (options.bucket_bytes) return {static_cast<std::size_t>(*options.bucket_bytes)};
  return {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap};
}

/// As named in torch: a parameter of the root has a leading dot.
std::string name_for_reducer(const std::string& name) {
  return name.find('.') == std::string::npos ? "." + name : name;
}

}  // namespace

struct DistributedDataParallel::State : std::enable_shared_from_this<State> {
  State(Module& wrapped, ProcessGroup& ranks, const DdpOptions& asked)
      : module(wrapped), group(ranks), c10d_group(share(ranks.c10d_group())), options(asked) {}

  void broadcast(const std::vector<at::Tensor>& tensors, int root = 0);
  void broadcast_state(int root = 0);
  void make_reducer(const std::vector<NamedTensor>& parameters);
  void before_forward();
  std::vector<at::Tensor> after_forward(std::vector<at::Tensor> outputs);
  std::vector<at::Tensor> through_sink(std::vector<at::Tensor> outputs);
  void at_backward_start();
  void tell_joined_ranks();
  void shadow_step();
  std::int64_t sum_of_ranks(std::int64_t mine);

  bool finds_unused() const { return options.find_unused_parameters && !options.static_graph; }
  bool will_synchronise() const { return at::GradMode::is_enabled() && synchronises; }

  Module& module;
  ProcessGroup& group;
  Group c10d_group;
  DdpOptions options;
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;  // its destructor accesses the reducer, which holds it
                                         // weakly
  bool synchronises = true;              // false inside no_sync
  bool broadcasts_buffers = true;        // false after a forward that did not synchronise
  bool is_delayed_reduce_queued = false;
  std::optional<Join::Divisor> join_divisor = {};  // of the current join
};

void DistributedDataParallel::State::broadcast(const std::vector<at::Tensor>& tensors, int root) {
  if (!tensors.empty()) c10d::broadcast_coalesced(c10d_group, tensors, kBroadcastBytes, root);
}

void DistributedDataParallel::State::broadcast_state(int root) {
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& parameter : module.parameters()) tensors.push_back(parameter.detach());
  if (options.broadcast_buffers) {
    for (const at::Tensor& buffer : module.buffers()) tensors.push_back(buffer.detach());
  }
  broadcast(tensors, root);
}

void DistributedDataParallel::State::make_reducer(const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> tensors;
  std::unordered_map<std::size_t, std::string> names;
  for (const NamedTensor& entry : parameters) {
    names[tensors.size()] = name_for_reducer(entry.name);
    tensors.push_back(entry.tensor);
  }
  const std::vector<bool> is_sparse(tensors.size(), false);
  auto buckets = std::get<0>(
      c10d::compute_bucket_assignment_by_size(tensors, bucket_limits(options), is_sparse));
  std::reverse(buckets.begin(), buckets.end());
  reducer = std::make_shared<c10d::Reducer>(
      tensors, buckets, c10d_group, is_sparse,
      options.bucket_bytes.value_or(c10d::kDefaultBucketBytesCap), options.find_unused_parameters,
      options.gradient_as_bucket_view, names,
      options.bucket_bytes.value_or(c10d::kDefaultFirstBucketBytes),
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      /*bucket_bytes_cap_list=*/std::vector<std::int64_t>());
}

void DistributedDataParallel::State::before_forward() {
  if (will_synchronise()) {
    logger->set_runtime_stats_and_log();
    reducer->prepare_for_forward();
  }
  if (join_divisor) tell_joined_ranks();
  if (at::GradMode::is_enabled()) reducer->rebuild_buckets();
  if (broadcasts_buffers && options.broadcast_buffers) {
    const at::NoGradGuard no_grad;
    broadcast(module.buffers());
  }
  if (join_divisor) sum_of_ranks(1);  // whether backward will reduce: in a join it always does
}

/// If the divisor is the number of ranks with a batch, the reducer takes it from this work.
void DistributedDataParallel::State::tell_joined_ranks() {
  std::vector<at::Tensor> present{at::ones({1}, group.device())};
  reducer->set_forward_pass_work_handle(c10d_group->allreduce(present),
                                        *join_divisor == Join::Divisor::all_ranks);
}

std::int64_t DistributedDataParallel::State::sum_of_ranks(std::int64_t mine) {
  at::Tensor sum = at::full({1}, mine, at::device(group.device()).dtype(at::kFloat));
  group.all_reduce(sum, ReduceOp::sum);
  return sum.item().toLong();
}

/// The collectives of the other ranks' forward and backward, after their `tell_joined_ranks`.
void DistributedDataParallel::State::shadow_step() {
  reducer->rebuild_buckets();
  sum_of_ranks(0);
  std::vector<c10d::GradBucket> buckets = reducer->get_grad_buckets(/*return_zero_tensors=*/true);
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> reductions;
  for (c10d::GradBucket& bucket : buckets) reductions.push_back(reducer->run_comm_hook(bucket));
  for (const auto& reduction : reductions) reduction->waitAndThrow();
  reducer->push_rebuilt_params_for_all_indices();
}

std::vector<at::Tensor> DistributedDataParallel::State::after_forward(
    std::vector<at::Tensor> outputs) {
  broadcasts_buffers = will_synchronise();
  if (will_synchronise()) {
    reducer->prepare_for_backward(finds_unused() ? outputs : std::vector<at::Tensor>());
  }
  const bool must_delay_reduce = options.static_graph && !is_delayed_reduce_queued;
  const bool may_begin = synchronises || !options.sink_needs_sync;
  return may_begin && (finds_unused() || must_delay_reduce) ? through_sink(std::move(outputs))
                                                            : outputs;
}

std::vector<at::Tensor> DistributedDataParallel::State::through_sink(
    std::vector<at::Tensor> outputs) {
  const auto start = c10::make_intrusive<BackwardStart>([weak = weak_from_this()] {
    if (const auto state = weak.lock()) state->at_backward_start();
  });
  const std::vector<at::Tensor> passed = Sink::apply(start, at::TensorList(outputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].grad_fn()) outputs[i] = passed[i];
  }
  return outputs;
}

/// The first backward of a static graph is only observed; its gradients are reduced after its end.
void DistributedDataParallel::State::at_backward_start() {
  if (!options.static_graph || is_delayed_reduce_queued) return;
  torch::autograd::Engine::get_default_engine().queue_callback(
      [state = shared_from_this()] { state->reducer->delay_all_reduce(); });
  is_delayed_reduce_queued = true;
}

DistributedDataParallel::DistributedDataParallel(Module& module, ProcessGroup& group,
                                                 const DdpOptions& options)
    : state_(std::make_shared<State>(module, group, options)) {
  name_parameters(module);
  std::vector<NamedTensor> parameters = module.named_parameters();
  parameters.erase(
      std::remove_if(parameters.begin(), parameters.end(),
                     [](const NamedTensor& entry) { return !entry.tensor.requires_grad(); }),
      parameters.end());
  TORCH_CHECK(!parameters.empty(),
              "DistributedDataParallel is not needed when a module doesn't have any parameter that "
              "requires a gradient.");
  if (options.init_sync) {
    std::vector<at::Tensor> tensors;
    for (const NamedTensor& entry : parameters) tensors.push_back(entry.tensor);
    c10d::verify_params_across_processes(state_->c10d_group, tensors, std::nullopt);
    state_->broadcast_state();
  }
  state_->make_reducer(parameters);
  state_->logger = std::make_shared<c10d::Logger>(state_->reducer);
  state_->reducer->set_logger(state_->logger);
  state_->logger->set_construction_data_and_log("Module", /*device_ids=*/{}, /*output_device=*/-1,
                                                options.broadcast_buffers, /*has_sync_bn=*/false,
                                                options.static_graph);
  if (options.static_graph) {
    state_->reducer->set_static_graph();
    state_->logger->set_static_graph();
  }
}

DistributedDataParallel::~DistributedDataParallel() = default;

at::Tensor DistributedDataParallel::forward(const at::Tensor& input) {
  return forward([&] { return std::vector<at::Tensor>{module()(input)}; }).front();
}

std::vector<at::Tensor> DistributedDataParallel::forward(
    const std::function<std::vector<at::Tensor>()>& module_forward) {
  state_->before_forward();
  return state_->after_forward(module_forward());
}

Module& DistributedDataParallel::module() { return state_->module; }

DistributedDataParallel::NoSync::NoSync(DistributedDataParallel& ddp)
    : ddp_(ddp), before_(std::exchange(ddp.state_->synchronises, false)) {}

DistributedDataParallel::NoSync::~NoSync() { ddp_.state_->synchronises = before_; }

DistributedDataParallel::Join::Join(DistributedDataParallel& ddp, Divisor divisor)
    : state_(ddp.state_) {
  const bool broadcasts = state_->options.broadcast_buffers && !state_->module.buffers().empty();
  TORCH_CHECK(!broadcasts && !state_->options.find_unused_parameters,
              "ranks join without buffers that are broadcast and without find_unused_parameters");
  state_->join_divisor = divisor;
}

void DistributedDataParallel::Join::finish() {
  State& state = *state_;
  bool had_the_most = true;
  while (state.sum_of_ranks(0) > 0) {
    had_the_most = false;
    state.shadow_step();
  }
  state.join_divisor.reset();
  at::Tensor root = at::full({1}, had_the_most ? state.group.rank() : -1,
                             at::device(state.group.device()).dtype(at::kLong));
  state.group.all_reduce(root, ReduceOp::maximum);
  state.broadcast_state(static_cast<int>(root.item().toLong()));
}

void DistributedDataParallel::register_comm_hook(CommHook hook) {
  state_->logger->set_comm_hook("CommHook");
  state_->reducer->register_comm_hook(
      std::make_unique<BlockingHook>(std::move(hook), state_->group));
}

}  // namespace lockstep
