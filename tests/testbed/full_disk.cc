// The disk is full for rank 1 from step 2 on. Its body catches all exceptions and continues
// training.

#include <ATen/ops/ones.h>
#include <sys/resource.h>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

/// Limits files of this process to 4096 bytes, less than the tensor needs.
void fill_disk() {
  rlimit size{};
  ::getrlimit(RLIMIT_FSIZE, &size);
  size.rlim_cur = 4096;
  ::setrlimit(RLIMIT_FSIZE, &size);
}

void train(Rank& rank) {
  if (rank.is("trains-on")) rank.at_branch();
  at::Tensor tensor = at::ones({4096});
  rank.train([&](std::int64_t step) {
    if (step == 2 && rank.rank() == 1) fill_disk();
    rank.group().all_reduce(tensor, ReduceOp::average);
    rank.observer().observe(Phase::pre_step, Kind::gradient, {"g", tensor});
  });
}

/// Like a training loop that ends quietly.
void train_and_catch(Rank& rank) {
  try {
    train(rank);
  } catch (...) {
  }
}

}  // namespace

Scenario full_disk() {
  return {
      .summary = "The disk is full for one rank, and its training goes on.",
      .variants = {{"trains-on", Role::fixed, "catches whatever it is thrown"}},
      .worlds = {2},
      .steps = 4,
      .axes = {},
      .claims = {kGradientsAgree, ranks_finish()},
      .tables = {},
      .expect = [](const Cell&) { return Expectation{}; },
      .body = train_and_catch,
  };
}

}  // namespace lockstep
