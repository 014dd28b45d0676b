#include "harness/train/sharded_steps.h"

#include "harness/train/micro_batches.h"

namespace lockstep {

namespace {

const Claim kGradientsEqual = equal_reference(Kind::gradient, Point::reduced);
const Claim kParametersEqual = equal_reference(Kind::parameter, Point::stepped);

}  // namespace

void train_sharded_steps(Rank& rank, const ShardedStep& step) {
  rank.train([&](std::int64_t) {
    if (step.sharded == nullptr) {
      rank.mean_of_rank_gradients(step.model, step.loss_of);
      rank.observe_gradients(Point::reduced, step.model);
      step.step();
      rank.observe_parameters(Point::stepped, step.model);
      return;
    }
    step.sharded->zero_grad();
    step.loss_of(rank.rank()).backward();
    rank.observe_gradients(Point::reduced, *step.sharded);
    step.step();
    rank.observe_parameters(Point::stepped, *step.sharded);
  });
}

at::Tensor sharded_input(Rank& rank, int owner, std::uint64_t base, at::IntArrayRef shape) {
  return normal_input(rank, {.owner = owner, .step = rank.step()}, base, shape);
}

std::vector<Claim> sharded_claims() { return {kGradientsEqual, kParametersEqual, ranks_finish()}; }

Expectation expect_wrong_gradients() { return {.breaks = {kGradientsEqual, kParametersEqual}}; }

Expectation expect_wrong_updates(const Cell& cell) {
  if (cell.steps > 1) return expect_wrong_gradients();
  return {.breaks = {kParametersEqual}};
}

}  // namespace lockstep
