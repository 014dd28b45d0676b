// Additional promise of the scenario of checkpoints: its fix gives exactly the gradients of a model
// without checkpoints.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tests/command.h"
#include "tests/scenarios/gradients_of.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kScenario = "reentrant-checkpoint-under-ddp";

class Checkpoints : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Checkpoints, GiveTheGradientsOfAModelWithoutThemBitForBit) {
  const auto [dropout, ranks] = GetParam();
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  const Outcome outcome = run_shell(fmt::format(
      "{0} run {1}/non-reentrant-offload {1}/no-checkpoint --ranks {2} --set dropout={3} --out {4}",
      LOCKSTEP_PROGRAM, kScenario, ranks, dropout, run.string()));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  std::map<std::string, fs::path> folders;
  const json record = json::parse(text_of(run / "record.json"));
  for (const json& cell : record.at("cells")) {
    folders[cell.at("cell").at("variant")] = run / cell.at("folder").get<std::string>();
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string journal = fmt::format("rank-{}.csv", rank);
    const auto plain = gradients_of(folders.at("no-checkpoint") / journal);
    EXPECT_FALSE(plain.empty());
    EXPECT_EQ(gradients_of(folders.at("non-reentrant-offload") / journal), plain) << journal;
  }
}

INSTANTIATE_TEST_SUITE_P(Dropout, Checkpoints,
                         testing::Combine(testing::Values("off", "on"), testing::Values(2, 3)),
                         [](const auto& parameter) {
                           return fmt::format("{}_{}_ranks", std::get<0>(parameter.param),
                                              std::get<1>(parameter.param));
                         });

}  // namespace
}  // namespace lockstep
