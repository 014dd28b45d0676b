#include "harness/train/expect.h"

#include <utility>

#include "harness/comm/group_error.h"

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

bool is_faulty(const Cell& cell) {
  return cell.role == Role::buggy || cell.role == Role::wrong_fix;
}

Expectation expect_not_applicable(std::string reason) {
  return {.not_applicable = std::move(reason)};
}

Expectation expect_error(const char* fragment, std::int64_t step) {
  return {.raises = {{.fragment = fragment, .step = step}}, .outcome = OutcomeKind::raised};
}

Expectation expect_ranks_differ(bool parameters_move) {
  Expectation expectation{.breaks = {kGradientsAgree, kGradientsEqual},
                          .outcome = OutcomeKind::ranks_differ};
  if (parameters_move) {
    expectation.breaks.insert(expectation.breaks.end(), {kParametersAgree, kParametersEqual});
  }
  return expectation;
}

Expectation expect_agree_but_wrong(bool parameters_move) {
  Expectation expectation{.breaks = {kGradientsEqual}, .outcome = OutcomeKind::agree_but_wrong};
  if (parameters_move) expectation.breaks.push_back(kParametersEqual);
  return expectation;
}

Expectation expect_error_after_wrong_step(const char* fragment) {
  Expectation expectation = expect_ranks_differ();
  expectation.raises = {{.fragment = fragment, .step = 2, .lag = 1}};
  expectation.outcome = OutcomeKind::raised_late;
  return expectation;
}

Expectation expect_wrong_shards(OutcomeKind outcome) {
  return {.breaks = {kGradientsEqual, kParametersEqual}, .outcome = outcome};
}

Expectation expect_wrong_updates(const Cell& cell) {
  if (cell.steps > 1) return expect_wrong_shards();
  return {.breaks = {kParametersEqual}, .outcome = OutcomeKind::agree_but_wrong};
}

Expectation expect_tensors_swapped() {
  Expectation expectation = expect_ranks_differ();
  expectation.breaks.push_back(collectives_match());
  return expectation;
}

Expectation expect_ranks_do_not_meet(std::vector<Claim> silent) {
  Expectation expectation{.breaks = std::move(silent)};
  expectation.breaks.insert(expectation.breaks.end(), {ranks_finish(), collectives_match()});
  return expectation;
}

Expectation expect_sizes_differ(const Cell& cell, std::int64_t step) {
  const char* fragment =
      cell.backend == "mpi" ? group_error::kCallsDiffer : group_error::kGlooSizes;
  return {.breaks = {collectives_match()}, .raises = {{.fragment = fragment, .step = step}}};
}

}  // namespace lockstep
