#pragma once

#include <limits>

#include "reports/record/run_record.h"

namespace lockstep {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The values of OpenTSLM#49's tables: buggy and fixed, both ranks, in steps 1 to 5.
inline Table published_gradients() {
  Table table{"loss-on-unwrapped-module", 2, {}, {}, {}};
  table.spec = {.title = "Table 1 - gradient on weight[0] after backward, per rank",
                .quantity = Quantity::element,
                .kind = Kind::gradient,
                .phase = Phase::pre_step,
                .tensor = "weight",
                .element = 0,
                .symbol = "g",
                .digits = 5,
                .groups = {{"BUGGY", "bypass"}, {"FIXED", "all-reduce-each"}}};
  table.rows = {{1, {{{0.04043, 0.19431}, false}, {{0.11737, 0.11737}, true}}},
                {2, {{{-0.13683, -0.05685}, false}, {{-0.09659, -0.09659}, true}}},
                {3, {{{0.05426, -0.25685}, false}, {{-0.10196, -0.10196}, true}}},
                {4, {{{0.02004, -0.01721}, false}, {{-0.00963, -0.00963}, true}}},
                {5, {{{-0.21217, -0.45084}, false}, {{-0.34623, -0.34623}, true}}}};
  return table;
}

inline Table published_drift() {
  Table table = published_gradients();
  table.spec.title = "Table 2 - cross-rank model divergence max|W_rank0 - W_rank1| after each step";
  table.spec.quantity = Quantity::drift;
  table.spec.kind = Kind::parameter;
  table.spec.phase = Phase::post_step;
  table.spec.digits = 6;
  table.rows = {{1, {{{0.050678}, false}, {{0}, true}}},
                {2, {{{0.073750}, false}, {{0}, true}}},
                {3, {{{0.093219}, false}, {{0}, true}}},
                {4, {{{0.118547}, false}, {{0}, true}}},
                {5, {{{0.132573}, false}, {{0}, true}}}};
  return table;
}

/// The values that OpenTSLM#49 printed for the whole pipeline.
inline Table published_norms() {
  Table table{"loss-on-unwrapped-module", 2, {}, {}, {}};
  table.spec = {.title = "The same on the pipeline",
                .quantity = Quantity::norm,
                .kind = Kind::gradient,
                .phase = Phase::pre_step,
                .digits = 3,
                .groups = {{"BUGGY (current code: loss on _get_model(), no all-reduce)", "bypass"},
                           {"FIXED (+ all-reduce grads after backward)", "all-reduce-each"}},
                .first_step = 0};
  table.rows = {{1, {{{29.180, 29.762}, false, 0}, {{28.969, 28.969}, true, 0}}},
                {2, {{{30.274, 29.429}, false, 0}, {{29.689, 29.689}, true, 0}}},
                {3, {{{30.679, 29.582}, false, 1.769e-4}, {{29.913, 29.913}, true, 0}}},
                {4, {{{28.949, 29.850}, false, 3.611e-4}, {{29.223, 29.223}, true, 0}}}};
  return table;
}

inline Table literal_distances() {
  Table table = published_norms();
  table.spec.title = "How far each rank is from rank 0";
  table.spec.quantity = Quantity::distance;
  table.spec.kind = Kind::parameter;
  table.spec.phase = Phase::post_step;
  table.spec.symbol = "W";
  table.spec.groups = {{"BUGGY", "bypass"}, {"FIXED", "all-reduce-each"}};
  table.spec.first_step = 1;
  table.spec.steps = {1, 4};
  table.rows = {{1, {{{0, 0.0506780}, false}, {{0, 0}, true}}},
                {4, {{{0, 0.118547}, false}, {{0, 0}, true}}}};
  return table;
}

}  // namespace lockstep
