// One rank fails in step 2, or only changes its folder, while the others wait for it in a
// collective.

#include <ATen/ops/ones.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr int kCulprit = 1;

void end_badly(Rank& rank) {
  rank.at_branch();
  if (rank.is("finishes")) return;
  if (rank.is("changes-directory")) return std::filesystem::current_path("/");
  if (rank.is("raises")) throw std::runtime_error("planted: rank 1 gives up");
  if (rank.is("raises-without-text")) throw std::runtime_error("");
  if (rank.is("exits")) std::_Exit(3);
  if (rank.is("exits-with-0")) std::_Exit(0);
  if (rank.is("aborts")) std::abort();
  if (rank.is("is-killed")) ::raise(SIGKILL);
  if (rank.is("stops")) ::raise(SIGSTOP);
  while (rank.is("hangs")) ::pause();
}

void train(Rank& rank) {
  at::Tensor tensor = at::ones({4});
  rank.train([&](std::int64_t step) {
    if (step == 2 && rank.rank() == kCulprit) end_badly(rank);
    rank.group().all_reduce(tensor, ReduceOp::average);
    rank.observer().observe(Phase::pre_step, Kind::gradient, {"g", tensor});
  });
}

}  // namespace

Scenario endings() {
  using namespace std::chrono_literals;
  const std::vector<Claim> claims{kGradientsAgree, ranks_finish()};
  return {
      .summary = "Rank 1 ends badly in step 2.",
      .variants =
          {{"finishes", Role::fixed, "nothing happens"},
           {"changes-directory", Role::fixed, "changes its working folder, as Hydra does"},
           {"raises", Role::buggy, "throws"},
           {"raises-without-text", Role::buggy, "throws nothing to read"},
           {"exits", Role::buggy, "exits with 3"},
           {"exits-with-0", Role::buggy, "exits as if all were well"},
           {"aborts", Role::buggy, "abort()"},
           {"is-killed", Role::buggy, "SIGKILL"},
           {.name = "stops", .role = Role::buggy, .summary = "SIGSTOP", .limit = 1000ms},
           {.name = "hangs", .role = Role::buggy, .summary = "never comes back", .limit = 1000ms}},
      .worlds = {2, 3, 4},
      .steps = 3,
      .axes = {},
      .claims = claims,
      .tables = {},
      .expect =
          [](const Cell& cell) {
            Expectation expectation;
            if (cell.variant == "raises") expectation.raises = {{"rank 1 gives up", 2, 0}};
            if (cell.role == Role::buggy && cell.variant != "raises") {
              expectation.breaks = {ranks_finish()};
            }
            return expectation;
          },
      .body = train,
  };
}

}  // namespace lockstep
