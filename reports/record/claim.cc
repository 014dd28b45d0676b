#include "reports/record/claim.h"

#include <fmt/format.h>

namespace lockstep {

namespace {

/// The usual phase of a kind; a claim about another phase names it.
Phase customary_phase(Kind kind) {
  switch (kind) {
    case Kind::parameter:
    case Kind::optimizer_state:
    case Kind::random_state:
    case Kind::update:
      return Phase::post_step;
    case Kind::gradient:
      return Phase::pre_step;
    case Kind::buffer:
    case Kind::loss:
    case Kind::data:
    case Kind::module_output:
    case Kind::used_weight:
    case Kind::held_weight:
      return Phase::pre_forward;
    case Kind::memory:
    case Kind::module_gradient:
    case Kind::contribution:
    case Kind::reduction:
      return Phase::post_backward;
  }
  return Phase::pre_forward;
}

std::string_view phase_in_words(Phase phase) {
  switch (phase) {
    case Phase::pre_forward:
      return "before forward";
    case Phase::post_backward:
      return "after backward";
    case Phase::pre_step:
      return "before the step";
    case Phase::post_step:
      return "after the step";
  }
  return "";
}

/// " after backward"; empty for the customary phase.
std::string unusual_phase(const Claim& claim) {
  const bool is_named = claim.phase && *claim.phase != customary_phase(*claim.kind) &&
                        claim.predicate != Predicate::agree_periodically;
  return is_named ? fmt::format(" {}", phase_in_words(*claim.phase)) : "";
}

std::string_view predicate_in_words(Predicate predicate) {
  switch (predicate) {
    case Predicate::agree_across_ranks:
      return "agree across ranks";
    case Predicate::equal_reference:
      return "equal the reference";
    case Predicate::ranks_finish:
      return "ranks finish";
    case Predicate::at_most_reference:
      return "stays within the reference's";
    case Predicate::collectives_match:
      return "collectives match";
    case Predicate::agree_periodically:
      return "agree across ranks periodically";
    case Predicate::stay_finite:
      return "stay finite";
    case Predicate::divide_samples:
      return "are divided between ranks";
    case Predicate::reduce_over_ranks:
      return "are those of all ranks, reduced";
    case Predicate::are_trained:
      return "are held by their optimizer";
    case Predicate::differ_across_ranks:
      return "differ across ranks";
    case Predicate::use_held_weights:
      return "are those that the optimizer holds";
    case Predicate::stay_tied:
      return "of tied modules stay one";
    case Predicate::have_one_order:
      return "have the same order on all ranks";
    case Predicate::update_parts_alike:
      return "that ranks divide are updated alike";
  }
  return "";
}

}  // namespace

Claim agree_across_ranks(Kind kind, Phase phase) {
  return {Predicate::agree_across_ranks, kind, phase};
}

Claim agree_periodically(Kind kind, Phase phase) {
  return {Predicate::agree_periodically, kind, phase};
}

Claim differ_across_ranks(Kind kind, Phase phase) {
  return {Predicate::differ_across_ranks, kind, phase};
}

bool is_about_agreement(const Claim& claim) {
  return claim.predicate == Predicate::agree_across_ranks ||
         claim.predicate == Predicate::agree_periodically;
}

Claim equal_reference(Kind kind, Phase phase) { return {Predicate::equal_reference, kind, phase}; }

Claim at_most_reference(Kind kind, Phase phase) {
  return {Predicate::at_most_reference, kind, phase};
}

Claim stay_finite(Kind kind, Phase phase) { return {Predicate::stay_finite, kind, phase}; }

Claim divide_samples() { return {Predicate::divide_samples, Kind::data, Phase::pre_forward}; }

Claim reduce_over_ranks() {
  return {Predicate::reduce_over_ranks, Kind::gradient, Phase::pre_step};
}

Claim are_trained() { return {Predicate::are_trained, Kind::parameter, Phase::post_step}; }

Claim use_held_weights() {
  return {Predicate::use_held_weights, Kind::used_weight, Phase::pre_forward};
}

Claim stay_tied() { return {Predicate::stay_tied, Kind::parameter, Phase::post_step}; }

Claim have_one_order() { return {Predicate::have_one_order, Kind::parameter, Phase::post_step}; }

Claim update_parts_alike() {
  return {Predicate::update_parts_alike, Kind::parameter, Phase::post_step};
}

Claim ranks_finish() { return {Predicate::ranks_finish, std::nullopt, std::nullopt}; }

Claim collectives_match() { return {Predicate::collectives_match, std::nullopt, std::nullopt}; }

std::string sentence(const Claim& claim) {
  std::string text(predicate_in_words(claim.predicate));
  if (!claim.kind) return text;
  return fmt::format("{} {}{}", plural(*claim.kind), text, unusual_phase(claim));
}

std::string subject(const Claim& claim) {
  return claim.kind ? fmt::format("{}{}", plural(*claim.kind), unusual_phase(claim)) : "ranks";
}

std::string_view plural(Kind kind) {
  switch (kind) {
    case Kind::parameter:
      return "parameters";
    case Kind::gradient:
      return "gradients";
    case Kind::buffer:
      return "buffers";
    case Kind::loss:
      return "losses";
    case Kind::memory:
      return "memory";
    case Kind::data:
      return "data";
    case Kind::optimizer_state:
      return "optimizer states";
    case Kind::random_state:
      return "random states";
    case Kind::module_output:
      return "outputs of modules";
    case Kind::module_gradient:
      return "gradients at outputs of modules";
    case Kind::contribution:
      return "gradients of single ranks";
    case Kind::reduction:
      return "gradients after the backward pass";
    case Kind::update:
      return "updates";
    case Kind::used_weight:
      return "weights of forward passes";
    case Kind::held_weight:
      return "weights of the optimizer";
  }
  return "";
}

ExitStatus status_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return ExitStatus::as_expected;
    case Verdict::undecided:
      return ExitStatus::undecided;
    case Verdict::violated:
      break;
  }
  return ExitStatus::failed;
}

}  // namespace lockstep
