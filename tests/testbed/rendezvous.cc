// Events before the rendezvous completes: some are the body's fault, some the machine's.

#include <ATen/ops/ones.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

/// Simulates a low limit of open files. It suffices for the rank's own log and one more file at a
/// time, but not for the connections of the store and of Gloo.
void leave_no_files() {
  // The two lowest free numbers. Between them others may be open, which this process inherited.
  const int first = ::dup(STDOUT_FILENO);
  const int second = ::dup(STDOUT_FILENO);
  ::close(first);
  ::close(second);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = static_cast<rlim_t>(second) + 1;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

void fail_alone(Rank& rank) {
  rank.at_branch();
  if (rank.is("raises")) throw std::runtime_error("planted: rank 1 has no data");
  if (rank.is("exits")) std::_Exit(3);
  if (rank.is("asks-for-an-axis")) static_cast<void>(rank.text("nope"));
  while (rank.is("stays-away")) ::pause();
}

void train(Rank& rank) {
  at::Tensor tensor = at::ones({4});
  if (rank.is("meets")) rank.at_branch();
  if (rank.is("has-no-files")) leave_no_files();
  if (rank.rank() == 1) fail_alone(rank);
  rank.group();
  rank.train([&](std::int64_t) {
    rank.group().all_reduce(tensor, ReduceOp::average);
    rank.observer().observe(Phase::pre_step, Kind::gradient, {"g", tensor});
  });
}

Expectation expect(const Cell& cell) {
  Expectation expectation;
  if (cell.variant == "raises") expectation.raises = {{"rank 1 has no data", 0, 0}};
  if (cell.variant == "asks-for-an-axis") expectation.raises = {{"has no axis 'nope'", 0, 0}};
  const bool ends_badly = cell.variant == "exits" || cell.variant == "stays-away";
  if (ends_badly) expectation.breaks = {ranks_finish()};
  return expectation;
}

}  // namespace

Scenario rendezvous() {
  using namespace std::chrono_literals;
  return {
      .summary = "Ranks fail before they have met.",
      .variants = {{"meets", Role::fixed, "nothing happens"},
                   {"raises", Role::buggy, "rank 1 throws before it comes"},
                   {"exits", Role::buggy, "rank 1 exits before it comes"},
                   {"asks-for-an-axis", Role::buggy, "rank 1 asks for an axis that is none"},
                   {.name = "stays-away",
                    .role = Role::buggy,
                    .summary = "rank 1 never comes",
                    .limit = 1000ms},
                   {"has-no-files", Role::fixed, "all come, and no rank can open a connection"}},
      .worlds = {2, 3},
      .steps = 2,
      .axes = {},
      .claims = {agree_across_ranks(Kind::gradient, Phase::pre_step), ranks_finish()},
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
