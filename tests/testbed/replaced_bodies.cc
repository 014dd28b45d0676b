// Faults of the catalogue's classes, declared like in its scenarios. Each has five replacements
// that break the same claims. Only the declared fault must be recognised as declared.

#include <ATen/TensorOperators.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

/// The declared fault of the cell, which its variant `as-declared` contains.
void leave_declared_fault(Rank& rank, const std::vector<at::Tensor>& parameters) {
  if (is_set(rank.cell(), "declared", "never-reduced")) return;
  average_each(rank.group(), parameters);
  at::Tensor& first = parameters.front().mutable_grad();
  if (is_set(rank.cell(), "declared", "other-rows")) first = first.flip({0});
  if (!is_set(rank.cell(), "declared", "summed")) return;
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad() *= rank.world_size();
}

/// Replaces the correct gradient of a parameter by that of another fault.
void leave_other_fault(Rank& rank, at::Tensor& gradient) {
  if (rank.is("constant")) gradient.fill_(0.123);
  if (rank.is("absent")) gradient = at::Tensor();
  if (rank.is("times-1.7")) gradient *= 1.7;
  if (rank.is("zero")) gradient.zero_();
  if (rank.is("times-0.9")) gradient *= 0.9;
}

void train(Rank& rank) {
  TwoLayers model(3, 5, 2, cpu_generator(rank.seed(0)));
  const auto reduce = [&](std::int64_t) {
    rank.at_branch();
    const std::vector<at::Tensor> parameters = model.parameters();
    if (rank.is("as-declared")) return leave_declared_fault(rank, parameters);
    average_each(rank.group(), parameters);
    for (const at::Tensor& parameter : parameters)
      leave_other_fault(rank, parameter.mutable_grad());
  };
  Training(rank, model, {.sync = GradientSync::none})
      .run({.loss =
                [&](const MicroBatch& batch) {
                  return squared_error(rank, batch, model, {4}, 3, 2);
                },
            .reduce = reduce});
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  if (is_set(cell, "declared", "summed")) return expect_multiple(cell, cell.world_size);
  if (is_set(cell, "declared", "never-reduced")) return expect_never_reduced(cell);
  return expect_alike_but_wrong(cell, {"up.weight"});
}

}  // namespace

Scenario replaced_bodies() {
  return {
      .summary = "A declared fault, and others in its place.",
      .variants = {{"as-declared", Role::buggy, "the fault that is declared"},
                   {"constant", Role::buggy, "gradients are 0.123 everywhere"},
                   {"absent", Role::buggy, "there are no gradients"},
                   {"times-1.7", Role::buggy, "gradients are 1.7 times the right ones"},
                   {"zero", Role::buggy, "gradients are zeros"},
                   {"times-0.9", Role::buggy, "gradients are 0.9 times the right ones"},
                   {"reference", Role::reference, "the mean of all shards' gradients"}},
      .worlds = {2, 3},
      .steps = 2,
      .axes = {{"declared",
                {"summed", "never-reduced", "other-rows"},
                "summed",
                {"as-declared", "constant", "absent", "times-1.7", "zero", "times-0.9"}}},
      .claims = replica_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
