// A training with DDP in which a rank ends at a random collective. The seed determines the rank,
// the collective, and whether it ends before or within it.

#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/nn/two_layers.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr std::int64_t kCallsPerStep = 4;  // two buckets, but one in step 1; losses; a barrier

/// Ends its process after a number of calls.
class Fuse {
 public:
  explicit Fuse(Rank& rank) : rank_(rank) {
    const at::Generator generator = cpu_generator(rank.seed(0));
    const auto draw = [&](std::int64_t below) {
      return at::randint(below, {1}, generator, at::kLong).item<std::int64_t>();
    };
    if (draw(rank.world_size()) != rank.rank()) return;
    left_ = 1 + draw(kCallsPerStep * rank.cell().steps - 1);
    is_within_ = draw(2) == 1;
  }

  void before_call() {
    if (left_ > 0 && --left_ == 0) is_burnt_ = true;
    if (is_burnt_ && !is_within_) go_off();
  }
  void within_call() {
    if (is_burnt_) go_off();
  }

 private:
  void go_off() {
    if (!rank_.is("faulty")) return;
    rank_.at_branch();
    const std::string& fault = rank_.text("fault");
    std::fputs(fmt::format("planted: {}\n", fault).c_str(), stdout);
    std::fflush(stdout);
    if (fault == "kill") ::raise(SIGKILL);
    if (fault == "stop") ::raise(SIGSTOP);
    if (fault == "abort") std::abort();
  }

  Rank& rank_;
  std::int64_t left_ = 0;  ///< calls until then; 0: never
  bool is_within_ = false;
  bool is_burnt_ = false;
};

void average(ProcessGroup& group, at::Tensor& tensor, Fuse& fuse) {
  fuse.before_call();
  Pending pending = group.start_all_reduce(tensor, ReduceOp::average);
  fuse.within_call();
  pending.wait();
}

void train(Rank& rank) {
  TwoLayers model(3, 5, 2, cpu_generator(rank.seed(1)));
  Sgd optimizer(model.parameters(), /*learning_rate=*/0.05);
  Fuse fuse(rank);
  DistributedDataParallel ddp(model, rank.group(), {.bucket_bytes = 64});
  ddp.register_comm_hook([&](ProcessGroup& group, const at::Tensor& bucket) {
    at::Tensor reduced = bucket;
    average(group, reduced, fuse);
    return reduced;
  });
  if (rank.is("healthy")) rank.at_branch();
  rank.train([&](std::int64_t step) {
    const auto own = static_cast<std::uint64_t>(100 * step + rank.rank());
    const at::Generator generator = cpu_generator(rank.seed(own));
    model.zero_grad();
    at::Tensor loss = ddp.forward(at::randn({4, 3}, generator, at::TensorOptions())).pow(2).mean();
    loss.backward();
    rank.observe_gradients(Phase::pre_step, model);
    optimizer.step();
    rank.observe_parameters(Phase::post_step, model);
    at::Tensor mean = loss.detach().clone();
    average(rank.group(), mean, fuse);
    fuse.before_call();
    fuse.within_call();
    rank.group().barrier();
  });
  if (rank.is("faulty")) rank.at_branch();
}

}  // namespace

Scenario collective_faults() {
  using namespace std::chrono_literals;
  return {
      .summary = "A rank ends at a random collective of a training with DDP.",
      .variants = {{.name = "faulty",
                    .role = Role::buggy,
                    .summary = "a rank is killed, is stopped or aborts",
                    .limit = 2s},
                   {"healthy", Role::fixed, "nothing happens"}},
      .worlds = {2, 3, 4, 8, 16, 32, 64},
      .steps = 3,
      .axes = {{"fault", {"kill", "stop", "abort"}, "kill", {"faulty"}}},
      .claims = {kGradientsAgree, kParametersAgree, ranks_finish(), collectives_match()},
      .tables = {},
      .expect =
          [](const Cell& cell) {
            return cell.role == Role::buggy ? Expectation{.breaks = {ranks_finish()}}
                                            : Expectation{};
          },
      .body = train,
  };
}

}  // namespace lockstep
