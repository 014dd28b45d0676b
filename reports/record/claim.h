#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "reports/base/names.h"

namespace lockstep {

/// Moment in a training step at which a tensor is observed.
///   pre_forward    before the forward pass, after buffers were broadcast
///   post_backward  right after the backward pass
///   pre_step       when the gradients are what the optimizer is about to use
///   post_step      after the optimizer's step
enum class Phase { pre_forward, post_backward, pre_step, post_step };

template <>
struct Names<Phase> {
  static constexpr std::array<std::string_view, 4> values{"pre_forward", "post_backward",
                                                          "pre_step", "post_step"};
  static constexpr std::array<std::string_view, 4> former{"forward", "backward", "reduced",
                                                          "stepped"};
};

/// What a tensor is to the training. New kinds are added at the end.
///   memory   what a step needed: a whole number of bytes
enum class Kind { parameter, gradient, buffer, loss, memory };

template <>
struct Names<Kind> {
  static constexpr std::array<std::string_view, 5> values{"parameter", "gradient", "buffer", "loss",
                                                          "memory"};
};

/// What is said of the observations. New predicates are added at the end; each has one judge.
enum class Predicate {
  agree_across_ranks,
  equal_reference,
  ranks_finish,
  at_most_reference,
  collectives_match
};

template <>
struct Names<Predicate> {
  static constexpr std::array<std::string_view, 5> values{"agree_across_ranks", "equal_reference",
                                                          "ranks_finish", "at_most_reference",
                                                          "collectives_match"};
};

/// A statement that is true of a correct program.
struct Claim {
  Predicate predicate = Predicate::ranks_finish;
  std::optional<Kind> kind;    ///< absent where the claim is about ranks
  std::optional<Phase> phase;  ///< absent where the claim is about ranks

  bool operator==(const Claim&) const = default;
};

/// All ranks hold the same bits of every tensor of `kind` at `phase`, in every step.
Claim agree_across_ranks(Kind kind, Phase phase);

/// Every tensor of `kind` at `phase` is the reference's, within the tolerance of rounding.
Claim equal_reference(Kind kind, Phase phase);

/// Every number of `kind` at `phase` is at most the reference's, but for a tenth of it.
Claim at_most_reference(Kind kind, Phase phase);

/// Every rank runs to its end: none raises, exits early, is killed or stays.
Claim ranks_finish();

/// The ranks of every group call the same collectives in the same order, on the same tensors.
Claim collectives_match();

/// "gradients agree across ranks", "parameters equal the reference", "ranks finish". A claim about
/// another phase than the customary one (gradients reduced, parameters stepped, buffers and losses
/// forward, memory backward) names it: "gradients agree across ranks after backward".
std::string sentence(const Claim& claim);

/// Plural for sentences: "gradients".
std::string_view plural(Kind kind);

/// What became of a claim. The order is the order of badness: merging takes the worse one, and so
/// does the exit status. Nothing observed is `undecided`, never `holds`.
enum class Verdict { holds, undecided, violated };

template <>
struct Names<Verdict> {
  static constexpr std::array<std::string_view, 3> values{"holds", "undecided", "violated"};
};

/// The worse of two.
constexpr Verdict merge(Verdict a, Verdict b) { return a < b ? b : a; }

}  // namespace lockstep
