#include "harness/scenario/expect.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "harness/record/group_error.h"

namespace lockstep {

std::vector<Claim> replica_claims() {
  return {kGradientsAgree, kParametersAgree, kGradientsEqual, kParametersEqual, ranks_finish()};
}

std::vector<Claim> sharded_claims() { return {kGradientsEqual, kParametersEqual, ranks_finish()}; }

std::vector<Claim> collective_claims() {
  std::vector<Claim> claims = replica_claims();
  claims.push_back(collectives_match());
  return claims;
}

std::vector<Claim> claims_before(std::vector<Claim> more, const std::vector<Claim>& claims) {
  more.insert(more.end(), claims.begin(), claims.end());
  return more;
}

ExpectationOf always(Expectation expectation) {
  return [expectation = std::move(expectation)](const Cell&) { return expectation; };
}

bool is_faulty(const Cell& cell) {
  return cell.role == Role::buggy || cell.role == Role::wrong_fix;
}

Expectation pinned(Expectation expectation, std::vector<Pin> pins) {
  for (Pin& pin : pins) expectation.pins.push_back(std::move(pin));
  return expectation;
}

Range about(double value, double precision) {
  const double open = std::abs(value) * precision;
  return {value - open, value + open};
}

std::vector<std::vector<int>> each_alone(const Cell& cell) {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < cell.world_size; ++rank) groups.push_back({rank});
  return groups;
}

Pin same_on_all_ranks(const Cell& cell, const Claim& claim, std::string tensor, std::int64_t step) {
  Pin pin{.claim = claim,
          .steps = {step},
          .last_step = cell.steps,
          .tensors = {std::move(tensor)},
          .groups = {{}}};
  for (int rank = 0; rank < cell.world_size; ++rank) pin.groups.front().push_back(rank);
  return pin;
}

Expectation expect_never_reduced(const Cell& cell, bool parameters_move) {
  return pinned(expect_ranks_differ(parameters_move), {{.claim = kGradientsAgree,
                                                        .steps = {1},
                                                        .last_step = cell.steps,
                                                        .groups = each_alone(cell)},
                                                       {.claim = kGradientsEqual,
                                                        .steps = {1},
                                                        .last_step = cell.steps,
                                                        .attribution = GradientAttribution::own,
                                                        .groups = each_alone(cell)}});
}

Expectation expect_multiple(const Cell& cell, double times, bool parameters_move) {
  const bool is_coarse = is_set(cell, "dtype", "bfloat16");  // 8 bits of a number
  return pinned(expect_agree_but_wrong(parameters_move),
                {{.claim = kGradientsEqual,
                  .steps = {1},
                  .last_step = cell.steps,
                  .ratio = about(times, is_coarse ? 0.03 : 1e-3),
                  .cosine = is_coarse ? Range{0.999, 1.001} : kSameDirection,
                  .groups = each_alone(cell)}});
}

Expectation expect_multiple_of(const Cell& cell, std::vector<std::string> tensors, double times) {
  Expectation expectation = expect_multiple(cell, times);
  expectation.pins.front().tensors = std::move(tensors);
  return expectation;
}

Pin wrong_gradients_of(const Cell& cell, std::vector<std::string> tensors, std::string why) {
  return {.claim = kGradientsEqual,
          .steps = {1},
          .last_step = cell.steps,
          .tensors = std::move(tensors),
          .why = std::move(why)};
}

Expectation expect_hidden() { return {.symptom = SymptomKind::right}; }

Expectation expect_not_applicable(std::string reason) {
  return {.not_applicable = std::move(reason)};
}

std::string no_single_step_of_adamw(const Cell& cell) {
  if (cell.steps > 1 || !is_set(cell, "optimizer", "adamw")) return "";
  return "AdamW's first step uses only the signs of the gradients, so a difference may not reach "
         "the weights: give 2 steps or more";
}

bool has_no_sync_with_static_graph(const Cell& cell) {
  return is_set(cell, "static_graph") && is_set(cell, "no_sync") &&
         number_on(cell, "accumulation") > 1;
}

std::string refuse_no_sync_with_static_graph(const Cell& cell) {
  return has_no_sync_with_static_graph(cell) ? kNoSyncWithStaticGraph : "";
}

std::string hidden_by_rounding(double least) {
  return fmt::format(
      "in bfloat16, such a fault can be as small as {} of the 10 tolerances that prove one", least);
}

Expectation expect_error(const char* fragment, std::int64_t step) {
  return {.raises = {{.fragment = fragment, .step = step}}, .symptom = SymptomKind::raised};
}

Expectation expect_ranks_differ(bool parameters_move) {
  Expectation expectation{.breaks = {kGradientsAgree, kGradientsEqual},
                          .symptom = SymptomKind::ranks_differ};
  if (parameters_move) {
    expectation.breaks.insert(expectation.breaks.end(), {kParametersAgree, kParametersEqual});
  }
  return expectation;
}

Expectation expect_agree_but_wrong(bool parameters_move) {
  Expectation expectation{.breaks = {kGradientsEqual}, .symptom = SymptomKind::agree_but_wrong};
  if (parameters_move) expectation.breaks.push_back(kParametersEqual);
  return expectation;
}

Expectation expect_apart(const Cell& cell, const std::vector<std::string>& tensors,
                         bool parameters_move, std::int64_t step) {
  const std::string why = "each rank's own part is random";
  return pinned(expect_ranks_differ(parameters_move), {{.claim = kGradientsAgree,
                                                        .steps = {step},
                                                        .last_step = cell.steps,
                                                        .tensors = tensors,
                                                        .groups = each_alone(cell),
                                                        .why = why},
                                                       {.claim = kGradientsEqual,
                                                        .steps = {step},
                                                        .last_step = cell.steps,
                                                        .tensors = tensors,
                                                        .why = why}});
}

Expectation expect_starts_apart(const Cell& cell, const std::vector<std::string>& parameters,
                                std::vector<std::string> gradients) {
  return pinned(
      {.breaks = {kInitialParametersAgree, kParametersAgree, kGradientsEqual, kParametersEqual},
       .symptom = SymptomKind::ranks_differ},
      {{.claim = kInitialParametersAgree,
        .steps = {1},
        .tensors = parameters,
        .groups = each_alone(cell)},
       {.claim = kParametersAgree,
        .steps = {1},
        .last_step = cell.steps,
        .tensors = parameters,
        .groups = each_alone(cell)},
       wrong_gradients_of(cell, std::move(gradients), "each rank's parameters are random")});
}

Expectation expect_alike_but_wrong(const Cell& cell, std::vector<std::string> tensors,
                                   bool parameters_move, std::int64_t step) {
  Pin pin{.claim = kGradientsEqual,
          .steps = {step},
          .last_step = cell.steps,
          .tensors = std::move(tensors),
          .groups = each_alone(cell),
          .why = "the lost part is random"};
  if (!is_set(cell, "prior", "on")) pin.cosine = kOtherDirection;
  return pinned(expect_agree_but_wrong(parameters_move), {pin});
}

Expectation expect_error_after_wrong_step(const Cell& cell, const char* fragment,
                                          const std::vector<std::string>& tensors) {
  Expectation expectation = expect_apart(cell, tensors);
  for (Pin& pin : expectation.pins) pin.last_step = 1;
  expectation.raises = {{.fragment = fragment, .step = 2, .lag = 1}};
  expectation.symptom = SymptomKind::raised_late;
  return expectation;
}

Expectation expect_wrong_shards(SymptomKind symptom) {
  return {.breaks = {kGradientsEqual, kParametersEqual}, .symptom = symptom};
}

Expectation expect_wrong_updates(const Cell& cell, std::vector<std::string> tensors) {
  const Pin updates{.claim = kParametersEqual,
                    .steps = {1},
                    .last_step = cell.steps,
                    .tensors = std::move(tensors),
                    .why = "part of the tensor is unchanged"};
  if (cell.steps == 1) {
    return pinned({.breaks = {kParametersEqual}, .symptom = SymptomKind::agree_but_wrong},
                  {updates});
  }
  return pinned(expect_wrong_shards(), {{.claim = kGradientsEqual, .steps = {2}}, updates});
}

std::vector<int> odd_ranks(const Cell& cell, int rank) {
  return cell.world_size == 2 ? std::vector{0, 1} : std::vector{rank};
}

Expectation expect_tensors_swapped(MismatchFault fault, std::vector<std::string> tensors) {
  Expectation expectation = expect_ranks_differ();
  expectation.breaks.push_back(collectives_match());
  Pin mixed{.claim = kGradientsEqual, .steps = {1}, .tensors = tensors};
  if (fault == MismatchFault::order) {
    mixed.attribution = GradientAttribution::mixture;
  } else {
    mixed.why = "the collectives show whose gradients are in the mean";
  }
  return pinned(std::move(expectation),
                {{.claim = kGradientsAgree, .steps = {1}, .tensors = std::move(tensors)},
                 std::move(mixed),
                 {.claim = collectives_match(), .steps = {1}, .fault = fault}});
}

Expectation expect_ranks_do_not_meet(MismatchFault fault, std::int64_t step,
                                     std::vector<int> culprits) {
  return {.breaks = {ranks_finish(), collectives_match()},
          .symptom = SymptomKind::mismatched,
          .pins = {{.claim = collectives_match(),
                    .steps = {step},
                    .fault = fault,
                    .culprits = std::move(culprits)}}};
}

Expectation expect_sizes_differ(const Cell& cell, std::int64_t step, std::vector<int> culprits) {
  const bool is_refused = cell.backend == Backend::mpi;
  return {.breaks = {collectives_match()},
          .raises = {{.fragment = is_refused ? group_error::kCallsDiffer : group_error::kGlooSizes,
                      .step = step}},
          .symptom = SymptomKind::mismatched,
          .pins = {{.claim = collectives_match(),
                    .steps = {step},
                    .fault = MismatchFault::size,
                    .culprits = std::move(culprits)}}};
}

}  // namespace lockstep
