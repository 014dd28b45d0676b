// An engine steps its own copies of sharded parameters, the masters, and gathers them into the
// model after each step. A checkpoint that is loaded into one of the two needs that as well: with
// new masters and an old model, the first gradients after the load belong to other weights; with a
// new model and old masters, the first step puts the old weights back. One step later all ranks
// agree again.

#include "harness/train/loop/saved_tensors.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"
#include "harness/train/sharded/zero.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;
constexpr std::int64_t kSavedAfter = 2;  // steps

constexpr Claim kModelsAgree = kInitialParametersAgree;  // before every step

/// What a checkpoint saves: the model's weights and a rank's masters.
struct Weights {
  std::vector<at::Tensor> model, masters;
};

/// Copies each master into its part of the rank's own model, and no other part.
void stage_own_parts(const Module& model, const Zero& zero) {
  const std::vector<at::Tensor> parameters = model.parameters();
  const std::vector<NamedShard> shards = zero.shards();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto& [name, master, place] = shards[i];
    if (master.numel() == 0) continue;
    const at::Tensor flat = parameters[i].detach().view(-1);
    load_tensors({flat.narrow(0, place.offset.front(), master.numel())}, {master});
  }
}

/// A new process: the initial weights, then what it loads.
void resume(Rank& rank, const Module& model, Zero& zero, const Weights& initial,
            const Weights& saved) {
  rank.at_branch();
  const bool loads_model = rank.has("loaded", "model") || rank.has("loaded", "both");
  const bool loads_masters = rank.has("loaded", "masters") || rank.has("loaded", "both");
  load_tensors(model.parameters(), loads_model ? saved.model : initial.model);
  load_tensors(zero.parameters(), loads_masters ? saved.masters : initial.masters);
  if (rank.has("then", "staged")) stage_own_parts(model, zero);
  if (rank.has("then", "gathered")) zero.finish_step();
}

void train(Rank& rank) {
  TwoLayers model(kInputs, 5, kOutputs, cpu_generator(rank.seed(0)));
  model.to(rank.device());
  StepHooks hooks{.loss = [&](const MicroBatch& batch) {
    return squared_error(rank, batch, regression_of_rank(batch.owner, kInputs, kOutputs),
                         [&](const at::Tensor& input) { return model(input); });
  }};
  if (rank.is_reference()) return Training(rank, model, training_options(rank)).run(hooks);
  Zero zero(model, rank.group(), {.stage = 1});
  const auto weights = [&] {
    return Weights{saved_tensors(model.parameters()), saved_tensors(zero.parameters())};
  };
  const Weights initial = weights();
  Weights saved;
  Training training(rank, model, training_options(rank), &zero);
  hooks.before = [&](std::int64_t step) {
    if (step == kSavedAfter + 1) resume(rank, model, zero, initial, saved);
    rank.observe_parameters(Phase::pre_forward, model);
  };
  hooks.after = [&](std::int64_t step) {
    if (step == kSavedAfter) saved = weights();
  };
  training.run(hooks);
}

Expectation expect_gradients_of_old_model(const Cell& cell) {
  Expectation expectation = expect_alike_but_wrong(cell, {}, true, kSavedAfter + 1);
  expectation.pins.front().why = "gradients of other weights are random";
  return expectation;
}

/// Each rank's model has the loaded values in the rank's own parts alone.
Expectation expect_models_apart(const Cell& cell) {
  Expectation expectation = expect_gradients_of_old_model(cell);
  expectation.breaks.push_back(kModelsAgree);
  expectation.symptom = SymptomKind::ranks_differ;
  return pinned(expectation, {{.claim = kModelsAgree,
                               .steps = {kSavedAfter + 1},
                               .last_step = kSavedAfter + 1,
                               .tensors = {"up.*", "down.*"},
                               .why = "ranks without a part of a tensor agree on its old values"}});
}

/// The first gradients are right, but the step starts from the old masters.
Expectation expect_old_weights_again(const Cell& cell) {
  return pinned(expect_wrong_shards(), {{.claim = kParametersEqual,
                                         .steps = {kSavedAfter + 1},
                                         .last_step = cell.steps,
                                         .groups = each_alone(cell),
                                         .why = "weights are random"},
                                        {.claim = kGradientsEqual,
                                         .steps = {kSavedAfter + 2},
                                         .last_step = cell.steps,
                                         .groups = each_alone(cell),
                                         .why = "gradients of other weights are random"}});
}

std::string resume_precondition(const Cell& cell) {
  return cell.steps >= kSavedAfter + 2 ? "" : "the resumed run needs two steps to show a wrong one";
}

}  // namespace

Scenario resume_skips_parameter_gather() {
  return {
      .summary =
          "A checkpoint is loaded into the sharded masters and not gathered into the model, or the "
          "other way round: the first step after it is another one.",
      .origin =
          {"Megatron-LM, ColossalAI, prime-rl",
           "NVIDIA/Megatron-LM#6920 (2026-08-27); hpcaitech/ColossalAI#4618 (2023-09-05), "
           "PrimeIntellect-ai/prime-rl#3234 (2026-08-14)",
           "ZeRO 1 between two steps: masters or a model that the other one does not follow; the "
           "gather that #6920 lost, whose ranks stage their own parts",
           "files and other processes: here the ranks go on with initial weights and load what "
           "they kept; masters of another dtype"},
      .variants =
          {buggy("gather-skipped", "the masters are loaded, and the model keeps initial weights",
                 "loaded=masters then=nothing", expect_gradients_of_old_model),
           buggy("own-parts-staged",
                 "each rank copies its masters into its own model, and nothing is gathered",
                 "loaded=masters then=staged", expect_models_apart),
           buggy("masters-stale", "the model is loaded, and the masters keep initial weights",
                 "loaded=model then=nothing", expect_old_weights_again),
           fixed("gathered-after-load", "the masters are loaded, and gathered into the model",
                 "loaded=masters then=gathered"),
           fixed("both-loaded", "the checkpoint has both", "loaded=both then=nothing"),
           reference("reference", "one process that never stops")},
      .steps = 5,
      .claims = claims_before({kModelsAgree, kParametersAgree}, sharded_claims()),
      .precondition = resume_precondition,
      .body = train,
  };
}

}  // namespace lockstep
