#include "tests/testbed/planted_bit.h"

#include <ATen/ops/randn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"

namespace lockstep {

namespace {

void flip(at::Tensor& tensor, std::int64_t element, int bit) {
  auto* bytes = static_cast<std::uint8_t*>(tensor.data_ptr());
  bytes[element * tensor.element_size() + bit / 8] ^= static_cast<std::uint8_t>(1 << (bit % 8));
}

}  // namespace

void train_with_planted_bit(Rank& rank) {
  rank.train([&](std::int64_t step) {
    const at::Generator generator = cpu_generator(rank.seed(static_cast<std::uint64_t>(step)));
    at::Tensor a = at::randn({3, 4}, generator, at::TensorOptions());
    at::Tensor b = at::randn({2, 7}, generator, at::TensorOptions());
    const bool is_here =
        rank.rank() == std::stoi(rank.text("rank")) && step == std::stoi(rank.text("step"));
    rank.at_branch();
    if (rank.is("clean")) {
      // unchanged
    } else if (rank.is("flip") && is_here) {
      flip(b, 5, std::stoi(rank.text("bit")));
    }
    rank.observer().observe(Phase::pre_step, Kind::gradient,
                            std::vector<NamedTensor>{{"a", a}, {"b", b}});
  });
}

Scenario planted_bit() {
  const std::vector<Claim> claims{kGradientsAgree, ranks_finish()};
  return {
      .summary = "One bit of one element on one rank in one step.",
      .variants = {{"flip", Role::buggy, "the bit is flipped"},
                   {"clean", Role::fixed, "it is not"}},
      .worlds = {2, 3, 4, 64},
      .devices = {DeviceKind::cpu},
      .steps = 3,
      .axes = {{"rank", {"0", "1", "2", "3"}, "1"},
               {"step", {"1", "2", "3"}, "2"},
               {"bit", {"0", "22", "23", "31"}, "0"}},
      .claims = claims,
      .tables = {},
      .expect =
          [claims](const Cell& cell) {
            Expectation expectation;
            if (cell.role == Role::buggy) expectation.breaks = {claims.front()};
            if (std::stoi(axis_value(cell, "rank")) >= cell.world_size) {
              expectation.not_applicable = "there is no such rank";
            }
            return expectation;
          },
      .body = train_with_planted_bit,
  };
}

}  // namespace lockstep
