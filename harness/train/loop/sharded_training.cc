#include "harness/train/loop/sharded_training.h"

#include <ATen/TensorOperators.h>

#include "harness/train/optim/optimizer.h"

namespace lockstep {

void train_sharded(Rank& rank, ShardedModel& model, const MicroBatchOptions& options,
                   const ShardedLoss& loss_of) {
  Sgd optimizer(model.parameters(), options.learning_rate);
  train_sharded(rank, model, options, loss_of, [&] { optimizer.step(); });
}

void train_sharded(Rank& rank, ShardedModel& model, const MicroBatchOptions& options,
                   const ShardedLoss& loss_of, const std::function<void()>& update) {
  rank.train([&](std::int64_t step) {
    model.zero_grad();
    for (std::int64_t index = 0; index < options.accumulation; ++index) {
      const MicroBatch batch{rank.rank(), step, index};
      model.set_requires_gradient_sync(!options.no_sync || index + 1 == options.accumulation);
      (loss_of(batch) / options.accumulation).backward();
      if (options.after_backward) options.after_backward(batch);
    }
    rank.observe_gradients(Phase::pre_step, model);
    update();
    model.finish_step();
    rank.observe_parameters(Phase::post_step, model);
  });
}

}  // namespace lockstep
