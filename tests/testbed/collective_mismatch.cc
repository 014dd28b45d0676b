// In step 2, rank 1 makes another call than the others. In some variants all ranks make calls that
// only look different.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr int kCulprit = 1;
constexpr std::int64_t kStep = 2;

/// Arguments of a call apart from its operation.
struct Call {
  std::int64_t elements = 4;
  at::ScalarType dtype = at::kFloat;
  ReduceOp reduction = ReduceOp::sum;
  int root = 0;
};

void make(ProcessGroup& group, std::string_view operation, const Call& call = {}) {
  at::Tensor part = at::ones({call.elements}, call.dtype);
  at::Tensor whole = at::ones({call.elements * group.size()}, call.dtype);
  if (operation == "all-reduce") return group.all_reduce(part, call.reduction);
  if (operation == "broadcast") return group.broadcast(part, call.root);
  if (operation == "all-gather") return group.all_gather(whole, part);
  if (operation == "reduce-scatter") return group.reduce_scatter(part, whole, call.reduction);
  group.barrier();
}

/// Rank 1's call in step 2 while the others call `operation`.
void call_other(Rank& rank, std::string_view operation) {
  ProcessGroup& group = rank.group();
  if (rank.is("operation")) return make(group, rank.text("second"));
  if (rank.is("size")) return make(group, operation, {.elements = 2});
  if (rank.is("dtype")) return make(group, operation, {.dtype = at::kDouble});
  if (rank.is("reduction")) return make(group, operation, {.reduction = ReduceOp::maximum});
  if (rank.is("root")) return make(group, operation, {.root = 1});
  while (rank.is("missing")) ::pause();
  if (rank.is("count")) return;
  throw internal_error("no call of " + rank.cell().variant);
}

void call_one(Rank& rank) {
  const std::string operation =
      rank.cell().variant == "root" ? "broadcast" : std::string(rank.text("first"));
  rank.train([&](std::int64_t step) {
    if (step == kStep && rank.rank() == kCulprit) return call_other(rank, operation);
    make(rank.group(), operation);
  });
}

/// Two parameters of one shape and one of another.
class Model : public Module {
 public:
  Model()
      : a(register_parameter("a", at::ones({4}))),
        b(register_parameter("b", at::ones({4}))),
        c(register_parameter("c", at::ones({3}))) {}
  at::Tensor forward(const at::Tensor& input) override {
    return (input * a).tanh() + input * b + c.sum();
  }
  at::Tensor a, b, c;
};

void average(Rank& rank, const std::vector<at::Tensor>& tensors) {
  for (at::Tensor tensor : tensors) rank.group().all_reduce(tensor, ReduceOp::average);
}

void reduce_other_tensors(Rank& rank) {
  const Model model;
  name_parameters(model);
  const at::NoGradGuard no_grad;
  rank.train([&](std::int64_t step) {
    const bool differs = step == kStep && rank.rank() == kCulprit;
    if (differs && rank.is("order")) return average(rank, {model.b, model.a, model.c});
    if (differs && rank.is("tensors")) return average(rank, {model.b, model.b, model.c});
    average(rank, {model.a, model.b, model.c});
  });
}

/// Uses zeros for missing gradients of rank 1; builds an extra model on rank 1 first.
void reduce_gradients(Rank& rank) {
  const bool is_filled = rank.is("zeros-from-another-line");
  std::optional<Model> extra;
  if (rank.rank() == kCulprit && rank.is("extra-model-first")) extra.emplace();
  Model model;
  rank.train([&](std::int64_t) {
    model.zero_grad();
    model.forward(at::ones({4})).sum().backward();
    if (is_filled && rank.rank() == kCulprit) {
      model.b.mutable_grad() = at::zeros_like(model.b);
      rank.group().all_reduce(model.a.mutable_grad(), ReduceOp::average);
      rank.group().all_reduce(model.b.mutable_grad(), ReduceOp::average);
      rank.group().all_reduce(model.c.mutable_grad(), ReduceOp::average);
    } else {
      for (const at::Tensor& parameter : model.parameters()) {
        rank.group().all_reduce(parameter.mutable_grad(), ReduceOp::average);
      }
    }
  });
}

/// One weight under two names, of which the one registered first counts.
class Tied : public Module {
 public:
  explicit Tied(bool head_first) {
    weight_ = register_parameter(head_first ? "head" : "embedding", at::ones({4}));
    other_ = register_parameter("other", at::ones({4}));
  }
  at::Tensor forward(const at::Tensor& input) override { return input * weight_ * other_; }

 private:
  at::Tensor weight_, other_;
};

void train_with_ddp(Rank& rank, Module& model, const DdpOptions& options) {
  DistributedDataParallel ddp(model, rank.group(), options);
  rank.train([&](std::int64_t) {
    for (const at::Tensor& parameter : model.parameters()) {
      if (parameter.grad().defined()) parameter.grad().zero_();
    }
    ddp.forward(at::ones({4})).sum().backward();
    const at::NoGradGuard no_grad;
    at::Tensor loss = at::ones({1});
    rank.group().all_reduce(loss, ReduceOp::average);
  });
}

/// Each rank starts the groups' all-reduces in its own order and waits for all of them.
void reduce_in_two_groups(Rank& rank) {
  std::vector<int> all;
  for (int i = 0; i < rank.world_size(); ++i) all.push_back(i);
  const auto one = rank.group().subgroup("one", all), two = rank.group().subgroup("two", all);
  rank.train([&](std::int64_t) {
    at::Tensor small = at::ones({2}), large = at::ones({6});
    const auto start_one = [&] { return one->start_all_reduce(small, ReduceOp::sum); };
    const auto start_two = [&] { return two->start_all_reduce(large, ReduceOp::sum); };
    const bool is_first = rank.is("groups-in-other-orders") && rank.rank() == kCulprit;
    Pending a = is_first ? start_two() : start_one();
    Pending b = is_first ? start_one() : start_two();
    a.wait();
    b.wait();
  });
}

/// Neighbours 0 and 1, and 1 and 2, reduce with each other, a different number of times per pair.
void reduce_in_pairs(Rank& rank) {
  std::unique_ptr<ProcessGroup> left, right;
  const int last = rank.world_size() - 1;
  for (int low = 0; low < last; ++low) {
    if (low + 1 == rank.rank()) left = rank.group().subgroup(std::to_string(low), {low, low + 1});
    if (low == rank.rank()) right = rank.group().subgroup(std::to_string(low), {low, low + 1});
  }
  rank.train([&](std::int64_t) {
    at::Tensor tensor = at::ones({4});
    for (int low = 0; low < last; ++low) {
      ProcessGroup* pair = low + 1 == rank.rank() ? left.get()
                           : low == rank.rank()   ? right.get()
                                                  : nullptr;
      for (int i = 0; pair && i <= low; ++i) pair->all_reduce(tensor, ReduceOp::sum);
    }
  });
}

/// Ranks 0,1 and 2,3 form groups; so do 0,2 and 1,3, which the lower two ranks call first. The
/// upper two make mismatched calls in their common group.
void reduce_in_rows_and_columns(Rank& rank) {
  const int row = rank.rank() / 2, column = rank.rank() % 2;
  const auto in_row = rank.group().subgroup("row " + std::to_string(row), {2 * row, 2 * row + 1});
  const auto in_column =
      rank.group().subgroup("column " + std::to_string(column), {column, column + 2});
  rank.train([&](std::int64_t step) {
    if (row == 1 && step == kStep) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const bool differs = rank.is("rows-and-columns") && rank.rank() == 3 && step == kStep;
    make(*in_row, "all-reduce", {.reduction = differs ? ReduceOp::maximum : ReduceOp::sum});
    if (differs) std::exit(3);
    make(*in_column, "all-reduce");
  });
}

void train(Rank& rank) {
  rank.at_branch();
  if (rank.is("order") || rank.is("tensors")) return reduce_other_tensors(rank);
  if (rank.is("zeros-from-another-line") || rank.is("extra-model-first")) {
    return reduce_gradients(rank);
  }
  if (rank.is("groups-in-other-orders")) return reduce_in_two_groups(rank);
  if (rank.is("pairs")) return reduce_in_pairs(rank);
  if (rank.is("rows-and-columns")) return reduce_in_rows_and_columns(rank);
  if (rank.is("tied-under-two-names")) {
    Tied model(rank.rank() == kCulprit);
    return train_with_ddp(rank, model, {});
  }
  if (rank.is("bucket-view")) {
    Model model;
    return train_with_ddp(rank, model, {.gradient_as_bucket_view = true, .bucket_bytes = 1});
  }
  call_one(rank);
}

bool is_on(const Cell& cell, std::string_view axis, std::string_view value) {
  return has_axis(cell, axis) && axis_value(cell, axis) == value;
}

Expectation expect(const Cell& cell) {
  const bool has_reduction =
      is_on(cell, "first", "all-reduce") || is_on(cell, "first", "reduce-scatter");
  const bool has_tensor = !is_on(cell, "first", "barrier");
  if (cell.variant == "reduction" && !has_reduction) return {.not_applicable = "reduces nothing"};
  if ((cell.variant == "size" || cell.variant == "dtype") && !has_tensor) {
    return {.not_applicable = "has no tensor"};
  }
  if (cell.variant == "operation" && axis_value(cell, "first") == axis_value(cell, "second")) {
    return {};
  }
  if (cell.variant == "rows-and-columns" && cell.world_size != 4) {
    return {.not_applicable = "has four ranks"};
  }
  if (cell.role == Role::fixed) return {};
  return {.breaks = {collectives_match()}};
}

}  // namespace

Scenario collective_mismatch() {
  const std::vector<std::string> operations{"all-reduce", "broadcast", "all-gather",
                                            "reduce-scatter", "barrier"};
  return {
      .summary = "Rank 1 calls something else than the others in step 2.",
      .variants = {{"operation", Role::buggy, "another operation"},
                   {"size", Role::buggy, "half as many elements"},
                   {"dtype", Role::buggy, "numbers of twice the size"},
                   {"reduction", Role::buggy, "the maximum rather than the sum"},
                   {"root", Role::buggy, "from itself rather than from rank 0"},
                   {"order", Role::buggy, "two tensors of one shape in the other order"},
                   {"tensors", Role::buggy, "one of two tensors of one shape, twice"},
                   {"missing", Role::buggy, "nothing: it never comes"},
                   {"count", Role::buggy, "nothing: it is ahead from there on"},
                   {"rows-and-columns", Role::buggy, "the maximum in a part, while others wait"},
                   {"groups-in-other-orders", Role::fixed, "two groups, not waited for"},
                   {"pairs", Role::fixed, "groups of two ranks that call other numbers of times"},
                   {"zeros-from-another-line", Role::fixed, "zeros where there is no gradient"},
                   {"tied-under-two-names", Role::fixed, "a weight that has another name there"},
                   {"extra-model-first", Role::fixed, "a model more before its own"},
                   {"bucket-view", Role::fixed, "DDP's gradients are views of its buckets"}},
      .worlds = {2, 3, 4},
      .steps = 3,
      .axes = {{"first",
                operations,
                "all-reduce",
                {"operation", "size", "dtype", "reduction", "missing", "count"}},
               {"second", operations, "barrier", {"operation"}}},
      .claims = {collectives_match()},
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
