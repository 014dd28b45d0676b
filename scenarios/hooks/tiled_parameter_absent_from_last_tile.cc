// The repair of tiled backwards that counts on the last tile: gradients of all tiles but the last
// are computed without hooks, and the last tile's backward() runs them. A parameter that the last
// tile does not use, an expert without a token there, never tells the reducer that it is ready. The
// same count goes wrong for a module that two layers share, and for a parameter that nobody uses.
// The other way round, a tile that uses all parameters and not its input has no gradient to copy.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "harness/train/autograd/tiled.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/swiglu.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kHidden = 16;
/// What torch says of a tensor that is not there, as None is in Python.
constexpr const char* kNoTensor = "Expected a proper Tensor but got None";

/// What is tiled, once or twice, between two layers.
class Model : public Module {
 public:
  Model(const Cell& cell, const at::Generator& generator)
      : below_(register_module("below", std::make_shared<Linear>(kWidth, kWidth, generator))),
        usual_(register_module("usual", std::make_shared<SwiGlu>(kWidth, kHidden, generator))),
        rare_(register_module("rare", std::make_shared<SwiGlu>(kWidth, kHidden, generator))),
        above_(register_module("above", std::make_shared<Linear>(kWidth, kWidth, generator))) {
    is_shared_ = is_about(cell, "shared");
    has_padding_ = is_about(cell, "tokenless");
    if (is_about(cell, "unused")) {
      register_module("unused", std::make_shared<Linear>(kWidth, kWidth, generator));
    }
  }

  /// [batch, length, width]; untiled without `tiling`. The first token of all is for the rare
  /// expert, and so for the first tile. Where there is padding, it is the first half of all tokens
  /// and for no expert, and the last token of all is the rare one's.
  at::Tensor run(const at::Tensor& input, const TilingOptions* tiling, bool touches_all) {
    at::Tensor hidden = below_->forward(input);
    const at::Tensor route = routes_of(input);
    std::vector<at::Tensor> parameters = usual_->parameters();
    for (const at::Tensor& parameter : rare_->parameters()) parameters.push_back(parameter);
    const TileFunction experts = [this, touches_all, parameters](const at::Tensor& rows) {
      at::Tensor output = run_experts(rows);
      if (!touches_all) return std::vector<at::Tensor>{output};
      for (const at::Tensor& parameter : parameters) output = output + (parameter * 0).sum();
      return std::vector<at::Tensor>{output};
    };
    for (int layer = 0; layer < (is_shared_ ? 2 : 1); ++layer) {
      const at::Tensor routed = at::cat({hidden, route}, -1);
      const at::Tensor output = tiling ? tiled(experts, parameters, routed, *tiling).front()
                                       : experts(routed.flatten(0, 1)).front().view_as(hidden);
      hidden = hidden + output;
    }
    return above_->forward(hidden);
  }

  at::Tensor forward(const at::Tensor& input) override { return run(input, nullptr, false); }

 private:
  /// [batch, length, 1]: 1 for the rare expert, -1 for none.
  at::Tensor routes_of(const at::Tensor& input) const {
    const at::Tensor route = at::zeros({input.size(0), input.size(1), 1}, input.options());
    const at::Tensor rows = route.view({-1});
    if (has_padding_) rows.narrow(0, 0, (rows.numel() + 1) / 2).fill_(-1);
    rows[has_padding_ ? -1 : 0] = 1;
    return route;
  }

  /// [rows, width + 1], the last column says of which expert a row is. An expert without rows is no
  /// part of the graph.
  at::Tensor run_experts(const at::Tensor& rows) {
    const at::Tensor values = rows.narrow(-1, 0, kWidth);
    const at::Tensor route = rows.select(-1, kWidth).detach();
    at::Tensor output = at::zeros_like(values);
    for (const auto& [expert, is_mine] :
         {std::pair(usual_, route == 0), std::pair(rare_, route > 0)}) {
      const at::Tensor mine = is_mine.nonzero().squeeze(-1);
      if (mine.numel() == 0) continue;
      output = output.index_add(0, mine, expert->forward(values.index_select(0, mine)));
    }
    return output;
  }

  bool is_shared_ = false;
  bool has_padding_ = false;
  std::shared_ptr<Linear> below_;
  std::shared_ptr<SwiGlu> usual_, rare_;
  std::shared_ptr<Linear> above_;
};

/// Where variants part: how gradients come out of the tiles, and what DDP is told.
struct Way {
  TilingOptions tiling;
  MicroBatchOptions options;
  bool touches_all = false;
};

Way way_of(Rank& rank) {
  Way way{.options = micro_batch_options(rank.cell())};
  if (has_axis(rank.cell(), "tiles")) way.tiling.tiles = number_on(rank.cell(), "tiles");
  way.tiling.backward = TileBackward::grad_but_last;
  if (rank.is("grad-but-last")) return way;
  if (rank.is("touching-all") || rank.is("shared-grad-but-last") ||
      rank.is("tokenless-tile-guarded")) {
    way.touches_all = true;
  } else if (rank.is("tokenless-tile")) {
    way.touches_all = true;
    way.tiling.guards_input_gradient = false;
  } else if (rank.is("find-unused")) {
    way.options.ddp.find_unused_parameters = true;
  } else if (rank.is("static-graph")) {
    way.options.ddp.static_graph = true;
  } else if (rank.is("shared-static-graph")) {
    way.touches_all = true;
    way.options.ddp.static_graph = true;
  } else {
    way.tiling.backward = TileBackward::explicit_inputs;
    if (rank.is("explicit-inputs") || rank.is("shared-explicit-inputs") ||
        rank.is("unused-by-nobody")) {
      return way;
    }
    if (rank.is("unused-found")) {
      way.options.ddp.find_unused_parameters = true;
    } else if (rank.is("unused-static-graph")) {
      way.options.ddp.static_graph = true;
    } else {
      rank.is(rank.cell().variant);  // references differ in the model alone
    }
  }
  return way;
}

void train(Rank& rank) {
  Model model(rank.cell(), cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  const Way way = way_of(rank);
  const TilingOptions* tiling = rank.cell().role == Role::reference ? nullptr : &way.tiling;
  const std::vector<std::int64_t> shape{number_on(rank.cell(), "batch"),
                                        number_on(rank.cell(), "length"), kWidth};
  train_in_micro_batches(rank, model, way.options, [&](const MicroBatch& batch, auto* ddp) {
    const at::Tensor input = normal_input(rank, batch, 1'000'000, shape);
    const at::Tensor target = normal_input(rank, batch, 2'000'000, shape);
    const auto forward = [&] {
      return std::vector<at::Tensor>{model.run(input, tiling, way.touches_all)};
    };
    return ((ddp ? ddp->forward(forward) : forward()).front() - target).pow(2).mean();
  });
}

bool is_static(const Cell& cell) {
  return is_set(cell, "static_graph") || is_about(cell, "static-graph");
}

/// A reducer that waits for a parameter in vain leaves the step unsynchronised, and says so when
/// the next synchronising forward begins: in the same step where every micro-batch synchronises.
Expectation expect_unfinished_reduction(const Cell& cell) {
  const MicroBatchOptions options = micro_batch_options(cell);
  if (options.accumulation > 1 && !options.no_sync) {
    return expect_error(ddp_error::kPriorUnfinished);
  }
  if (is_set(cell, "dtype", "bfloat16")) return expect_not_applicable(hidden_by_rounding(0.96));
  const std::vector<std::string> all{"*"};
  if (cell.steps == 1) return expect_apart(cell, all);
  return expect_error_after_wrong_step(cell, ddp_error::kPriorUnfinished, all);
}

/// The expert counts as unused, and its `.grad` is left alone: every rank keeps its own. A gradient
/// that is there when backward begins is handed over then, divided; with a bucket view that is
/// where tiles add theirs, undivided, before the bucket is reduced.
Expectation expect_left_out(const Cell& cell) {
  const MicroBatchOptions options = micro_batch_options(cell);
  const bool is_view = options.ddp.gradient_as_bucket_view;
  const std::int64_t first_wrong = is_view && options.accumulation == 1 ? 2 : 1;
  if (cell.steps < first_wrong) return expect_hidden();
  if (!is_view || (!options.prior && options.accumulation == 1)) {
    return expect_apart(cell, {"rare.*"}, /*parameters_move=*/true, first_wrong);
  }
  if (is_set(cell, "bucket", "small")) {
    return expect_not_applicable("tiles add to a bucket that is being reduced: a race");
  }
  return expect_alike_but_wrong(cell, {"rare.*"}, /*parameters_move=*/true, first_wrong);
}

Expectation expect(const Cell& cell) {
  const MicroBatchOptions options = micro_batch_options(cell);
  const bool is_not_armed = is_static(cell) && options.no_sync && options.accumulation > 1;
  if (cell.variant == "static-graph" && is_not_armed) return expect_error(ddp_error::kNotArmed);
  if (is_not_armed) return expect_not_applicable(kNoSyncWithStaticGraph);
  if (cell.variant == "shared-grad-but-last" || cell.variant == "find-unused") {
    return expect_error(ddp_error::kReadyTwice);
  }
  if (!is_faulty(cell)) return {};
  if (cell.variant == "unused-by-nobody") return expect_unfinished_reduction(cell);
  if (number_on(cell, "tiles") == 1) return expect_hidden();
  if (cell.variant == "tokenless-tile") return expect_error(kNoTensor);
  if (cell.variant == "grad-but-last") return expect_unfinished_reduction(cell);
  if (is_set(cell, "dtype", "bfloat16")) return expect_not_applicable(hidden_by_rounding(0.19));
  return expect_left_out(cell);
}

std::vector<Variant> variants() {
  return {
      {.name = "grad-but-last",
       .role = Role::buggy,
       .summary = "an expert without a token in the last tile: its hook never runs",
       .without = {"find_unused", "static_graph"}},
      {.name = "touching-all",
       .role = Role::fixed,
       .summary = "every tile adds nought times every parameter: the last one has them all",
       .without = {"find_unused"}},
      {.name = "explicit-inputs",
       .role = Role::fixed,
       .summary = "the parameters are inputs of the function: hooks run whatever tiles use"},
      {.name = "static-graph",
       .role = Role::wrong_fix,
       .summary = "a static graph takes the expert for unused: nobody complains, and every rank "
                  "keeps its own gradient for ever",
       .without = {"static_graph"}},
      {.name = "find-unused",
       .role = Role::wrong_fix,
       .summary = "find_unused_parameters takes all parameters inside of the function for unused",
       .without = {"find_unused", "static_graph"}},
      {.name = "shared-grad-but-last",
       .role = Role::buggy,
       .summary = "two layers share the module: each has a last tile, and hooks run twice",
       .reference = "reference-shared",
       .without = {"find_unused", "static_graph"}},
      {.name = "shared-static-graph",
       .role = Role::fixed,
       .summary = "the same with a static graph: the reducer counts both",
       .reference = "reference-shared",
       .without = {"static_graph"}},
      {.name = "shared-explicit-inputs",
       .role = Role::fixed,
       .summary = "the same with explicit inputs: autograd adds up before hooks run",
       .reference = "reference-shared"},
      {.name = "unused-by-nobody",
       .role = Role::buggy,
       .summary = "a layer that no rank uses: the step is not synchronised, the next one fails",
       .reference = "reference-unused",
       .without = {"find_unused", "static_graph"}},
      {.name = "unused-found",
       .role = Role::fixed,
       .summary = "the same with find_unused_parameters",
       .reference = "reference-unused",
       .without = {"find_unused", "static_graph"}},
      {.name = "unused-static-graph",
       .role = Role::fixed,
       .summary = "the same with a static graph",
       .reference = "reference-unused",
       .without = {"static_graph"}},
      {.name = "tokenless-tile",
       .role = Role::buggy,
       .summary = "a tile of padding alone, touching all parameters: the line as it was first "
                  "written copies an input's gradient that is not there",
       .reference = "reference-tokenless",
       .without = {"find_unused", "static_graph"}},
      {.name = "tokenless-tile-guarded",
       .role = Role::fixed,
       .summary = "the review: it is copied where it is there",
       .reference = "reference-tokenless",
       .without = {"find_unused"}},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, no tiles: the mean of all shards' gradients",
       .without = {"tiles", "no_sync", "bucket_view", "find_unused", "static_graph", "bucket"}},
      {.name = "reference-shared",
       .role = Role::reference,
       .summary = "the same with a module that two layers share",
       .without = {"tiles", "no_sync", "bucket_view", "find_unused", "static_graph", "bucket"}},
      {.name = "reference-unused",
       .role = Role::reference,
       .summary = "the same with a layer that nobody uses",
       .without = {"tiles", "no_sync", "bucket_view", "find_unused", "static_graph", "bucket"}},
      {.name = "reference-tokenless",
       .role = Role::reference,
       .summary = "the same where the first half of all tokens is padding",
       .without = {"tiles", "no_sync", "bucket_view", "find_unused", "static_graph", "bucket"}},
  };
}

std::vector<Axis> axes() {
  return ddp_axes({
      {"tiles", {"1", "2", "3", "4", "8"}, "4"},
      {"length", {"8", "11"}, "8"},
      {"batch", {"1", "2"}, "2"},
  });
}

}  // namespace

Scenario tiled_parameter_absent_from_last_tile() {
  return {
      .id = "tiled-parameter-absent-from-last-tile",
      .summary =
          "Hooks run in the last tile alone, and a parameter is not in it, or in two last "
          "tiles: the reducer waits in vain, or complains, or leaves it out.",
      .provenance = {.project = "unsloth",
                     .link = "pull request #4240 (2026-03-12)",
                     .kept = "the repair of the tiled backward, applied to experts, to a module "
                             "that two layers share, beside a layer that nobody uses; the copy of "
                             "an input's gradient before and after its review",
                     .left_out = "a router: which token goes to which expert is part of the input"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = replica_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
