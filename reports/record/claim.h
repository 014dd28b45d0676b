#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "reports/base/exit_status.h"
#include "reports/base/names.h"

namespace lockstep {

/// Moment in a training step at which a tensor is observed.
///   pre_forward    before the forward pass, after the broadcast of buffers
///   post_backward  right after the backward pass
///   pre_step       gradients are ready for the optimizer
///   post_step      after the optimizer's step
enum class Phase { pre_forward, post_backward, pre_step, post_step };

template <>
struct Names<Phase> {
  static constexpr std::array<std::string_view, 4> values{"pre_forward", "post_backward",
                                                          "pre_step", "post_step"};
};

/// Role of a tensor in training. New kinds are added at the end.
///   memory           memory use of a step: a whole number of bytes
///   data             samples that a rank saw: the rows of dimension 0
///   optimizer_state  of one parameter: "layer.weight: exp_avg"
///   random_state     of a generator: "torch cpu"
///   module_output    of one forward pass of a module: "layer1.0", "layer1.0[1]"
///   module_gradient  that arrives at such an output
///   contribution     a rank's own gradient, as a backward pass left it before ranks reduce it
///   reduction        the gradient at the end of that pass, by when wrappers have reduced it
///   update           by how much the optimizer's step moved a parameter
///   used_weight      with which a forward pass computes, after an engine has gathered it
///   held_weight      the part of it that the rank holds for its optimizer then, in that type
enum class Kind {
  parameter,
  gradient,
  buffer,
  loss,
  memory,
  data,
  optimizer_state,
  random_state,
  module_output,
  module_gradient,
  contribution,
  reduction,
  update,
  used_weight,
  held_weight
};

template <>
struct Names<Kind> {
  static constexpr std::array<std::string_view, 15> values{
      "parameter",    "gradient",        "buffer",       "loss",          "memory",
      "data",         "optimizer_state", "random_state", "module_output", "module_gradient",
      "contribution", "reduction",       "update",       "used_weight",   "held_weight"};
};

/// Property claimed of the observations. New predicates are added at the end; each has one judge.
enum class Predicate {
  agree_across_ranks,
  equal_reference,
  ranks_finish,
  at_most_reference,
  collectives_match,
  agree_periodically,
  stay_finite,
  divide_samples,
  reduce_over_ranks,
  are_trained,
  differ_across_ranks,
  use_held_weights,
  stay_tied,
  have_one_order,
  update_parts_alike
};

template <>
struct Names<Predicate> {
  static constexpr std::array<std::string_view, 15> values{
      "agree_across_ranks", "equal_reference",    "ranks_finish",        "at_most_reference",
      "collectives_match",  "agree_periodically", "stay_finite",         "divide_samples",
      "reduce_over_ranks",  "are_trained",        "differ_across_ranks", "use_held_weights",
      "stay_tied",          "have_one_order",     "update_parts_alike"};
};

/// A statement that is true of a correct program.
struct Claim {
  Predicate predicate = Predicate::ranks_finish;
  std::optional<Kind> kind;    ///< absent if the claim is about ranks
  std::optional<Phase> phase;  ///< absent if the claim is about ranks

  bool operator==(const Claim&) const = default;
};

/// All ranks hold the same bits of every tensor of `kind` at `phase`, in every step.
Claim agree_across_ranks(Kind kind, Phase phase);

/// The same in at least one of every so many steps, as with LocalSGD.
Claim agree_periodically(Kind kind, Phase phase);

/// No two ranks hold the same bits of a tensor of `kind` at `phase`: of random numbers, of samples.
Claim differ_across_ranks(Kind kind, Phase phase);

/// Whether the claim compares ranks.
bool is_about_agreement(const Claim& claim);

/// Every tensor of `kind` at `phase` equals the reference's, within the rounding tolerance.
Claim equal_reference(Kind kind, Phase phase);

/// Every number of `kind` at `phase` exceeds the reference's by at most a tenth.
Claim at_most_reference(Kind kind, Phase phase);

/// No tensor of `kind` at `phase` has more elements that are NaN or infinite than before the step.
Claim stay_finite(Kind kind, Phase phase);

/// The ranks of a data-parallel training do not all see the same samples.
Claim divide_samples();

/// Every gradient is the mean of those of all ranks that hold it, or their sum, up to a factor.
Claim reduce_over_ranks();

/// The parameters of a model are those that its optimizer holds.
Claim are_trained();

/// Forward passes compute with the weights that the optimizer holds.
Claim use_held_weights();

/// Modules that share a parameter go on to share it.
Claim stay_tied();

/// Wrappers that pair parameters of ranks by their places find them in the same order on all.
Claim have_one_order();

/// Ranks that hold parts of a parameter update them alike.
Claim update_parts_alike();

/// Every rank runs to its end: none raises, exits early, is killed or hangs.
Claim ranks_finish();

/// The ranks of every group call the same collectives in the same order, on the same tensors.
Claim collectives_match();

/// "gradients agree across ranks", "parameters equal the reference", "ranks finish". A claim names
/// its phase if it is not the usual one: "gradients agree across ranks after backward". Usual are
/// gradients reduced, parameters stepped, buffers and losses forward, memory backward.
std::string sentence(const Claim& claim);

/// Plural form: "gradients".
std::string_view plural(Kind kind);

/// Whether a tensor of the kind belongs to a forward pass of a module. Such tensors are those of a
/// rank's own samples, so ranks are not compared by them.
constexpr bool is_of_module(Kind kind) {
  return kind == Kind::module_output || kind == Kind::module_gradient;
}

/// Whether a tensor of the kind is one of a backward pass, which the ranks have not reduced, or may
/// not have.
constexpr bool is_of_pass(Kind kind) {
  return kind == Kind::contribution || kind == Kind::reduction;
}

/// Whether a tensor of the kind is a weight of a forward pass, or a part that it was gathered from.
constexpr bool is_of_gathering(Kind kind) {
  return kind == Kind::used_weight || kind == Kind::held_weight;
}

/// Verdict on a claim, ordered from good to bad: merging takes the worse one, and so does the exit
/// status. A claim without observations is `undecided`, never `holds`.
enum class Verdict { holds, undecided, violated };

template <>
struct Names<Verdict> {
  static constexpr std::array<std::string_view, 3> values{"holds", "undecided", "violated"};
};

/// The worse of two.
constexpr Verdict merge(Verdict a, Verdict b) { return a < b ? b : a; }

/// Exit status of a verdict alone.
ExitStatus status_of(Verdict verdict);

}  // namespace lockstep
