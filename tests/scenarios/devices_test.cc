// Additional promises of the scenarios of device maps.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/command.h"
#include "tests/record/whole_journal.h"
#include "tests/scenarios/gradients_of.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class Devices : public testing::Test {
 protected:
  /// Runs, and expects that all is as expected.
  void run(const std::string& arguments) {
    ++runs_;
    const Outcome outcome = run_shell(
        fmt::format("{} run {} --out {}", LOCKSTEP_PROGRAM, arguments, folder().string()));
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    record_ = json::parse(text_of(folder() / "record.json"));
  }

  const json& cell_of(const std::string& variant) const {
    for (const json& cell : record_.at("cells")) {
      if (cell.at("cell").at("variant") == variant) return cell;
    }
    throw std::out_of_range("no cell of " + variant);
  }

  /// Errors of a cell's ranks, by rank.
  std::map<int, std::string> errors_of(const std::string& variant) const {
    std::map<int, std::string> errors;
    for (const json& result : cell_of(variant).at("results")) {
      for (const json& finding : result.at("findings")) {
        if (finding.at("failure").is_null()) continue;
        errors[finding.at("failure").at("rank")] = finding.at("failure").at("error");
      }
    }
    return errors;
  }

  /// The report's sentence about a rank's exit.
  std::string sentence_of(const std::string& variant) const {
    for (const json& result : cell_of(variant).at("results")) {
      for (const json& finding : result.at("findings")) {
        if (!finding.at("failure").is_null()) return finding.at("sentence");
      }
    }
    return "";
  }

  /// Devices of a rank's weights.
  std::set<std::string> placement(const std::string& variant, int rank) const {
    std::set<std::string> places;
    for (const Observation& row : read_journal(journal(variant, rank)).observations) {
      if (row.name->starts_with("weights on ")) places.insert(row.name);
    }
    return places;
  }

  Gradients gradients(const std::string& variant, int rank) const {
    Gradients found = gradients_of(journal(variant, rank));
    EXPECT_FALSE(found.empty()) << variant;
    return found;
  }

 private:
  fs::path folder() const { return folder_.path() / std::to_string(runs_); }
  fs::path journal(const std::string& variant, int rank) const {
    return folder() / cell_of(variant).at("folder").get<std::string>() /
           fmt::format("rank-{}.csv", rank);
  }

  TemporaryFolder folder_;
  int runs_ = 0;
  json record_;
};

TEST_F(Devices, ThatAreFullNameModuleAndBytes) {
  run("split-map-under-data-parallel/first-device "
      "split-map-overridden-in-inference/overridden --ranks 2");
  for (const char* variant : {"first-device", "overridden"}) {
    const auto errors = errors_of(variant);
    ASSERT_EQ(errors.size(), 1U) << "the other rank only lost its peer";
    std::smatch bytes;
    const std::string& error = errors.begin()->second;
    ASSERT_TRUE(std::regex_search(
        error, bytes,
        std::regex("(\\d+) wanted, (\\d+) free, (\\d+) capacity, (\\d+) in use by this process, "
                   "(\\d+) by others")))
        << error;
    const auto number = [&](std::size_t i) { return std::stoll(bytes[i]); };
    EXPECT_GT(number(1), number(2));
    EXPECT_EQ(number(2), number(3) - number(4) - number(5));
    EXPECT_THAT(error, HasSubstr("while the whole model"));
    EXPECT_THAT(sentence_of(variant),
                testing::AllOf(HasSubstr(bytes.str()), HasSubstr("at its tensor 'language.")));
    EXPECT_THAT(error, HasSubstr("sim:0 out of memory. Tried to allocate"));
  }
  EXPECT_EQ(errors_of("first-device").begin()->first, 1) << "the second one on the device";
}

TEST_F(Devices, ThatMixRaiseTheWordsOfTorch) {
  run("loss-gradient-on-head-device --ranks 2");
  const auto expect_on_all = [&](const std::string& variant, const std::string& words) {
    const auto errors = errors_of(variant);
    EXPECT_EQ(errors.size(), 2U) << variant;
    for (const auto& [rank, error] : errors) EXPECT_THAT(error, HasSubstr(words)) << variant;
  };
  expect_on_all("gradient-left-on-head-device",
                "invalid gradient at index 0 - expected device sim:0 but got sim:1");
  expect_on_all("forward-mixes-devices", "Expected all tensors to be on the same device, but got");
  expect_on_all("functional-gradient", "Cannot access storage of TensorWrapper");
  expect_on_all("functional-gradient-moved-back", "Cannot access storage of TensorWrapper");
}

class StepsOnDevices : public Devices, public testing::WithParamInterface<int> {};

TEST_P(StepsOnDevices, OfASplitModelTrainItBitForBitAsOne) {
  run(fmt::format("split-device-map-pipeline --ranks 2 --steps {}", GetParam()));
  for (int rank = 0; rank < 2; ++rank) {
    const Gradients whole = gradients("data-parallel", rank);
    EXPECT_EQ(gradients("split-hidden-moved", rank), whole);
    EXPECT_EQ(gradients("split-gradient-moved-back", rank), whole);
    EXPECT_THAT(placement("data-parallel", rank),
                ElementsAre(fmt::format("weights on sim:{}", rank)));
    EXPECT_THAT(placement("split-hidden-moved", rank),
                ElementsAre("weights on sim:0", "weights on sim:1"));
  }
}

INSTANTIATE_TEST_SUITE_P(Few, StepsOnDevices, testing::Values(5));
INSTANTIATE_TEST_SUITE_P(Soak, StepsOnDevices, testing::Values(20));

TEST_F(Devices, MeetThePublishedTrainingInShape) {
  run("split-device-map-pipeline --ranks 1");
  const json& checks = cell_of("split-hidden-moved").at("checks");
  const json met = {{"promise", "meets unsloth-3809-training"},
                    {"claim", nullptr},
                    {"result", "as promised"},
                    {"text", ""}};
  EXPECT_EQ(std::count(checks.begin(), checks.end(), met), 1) << checks;
}

TEST_F(Devices, ThatAreSplitAreRefusedInTheWordsThatWereProposed) {
  run("split-map-under-data-parallel/refused split-map-under-data-parallel/refused-then-none "
      "--ranks 2");
  for (const auto& [rank, error] : errors_of("refused")) {
    EXPECT_THAT(error,
                HasSubstr("Unsloth: device_map='auto' is not supported for FastVisionModel"));
    EXPECT_THAT(placement("refused-then-none", rank),
                ElementsAre(fmt::format("weights on sim:{}", rank)));
  }
  EXPECT_EQ(errors_of("refused").size(), 2U);
}

TEST_F(Devices, ThatHoldQuantisedWeightsElsewhereAreRefusedByACheckOfOurs) {
  run("quantised-weights-off-training-device/split-over-all --ranks 2");
  const auto errors = errors_of("split-over-all");
  EXPECT_EQ(errors.size(), 2U);
  for (const auto& [rank, error] : errors) {
    EXPECT_THAT(error, HasSubstr("Lockstep's own check: the quantised weights of"));
    EXPECT_THAT(error, HasSubstr(fmt::format("this rank trains on sim:{}", rank)));
  }
}

TEST_F(Devices, ThatHoldEveryRanksQuantisedWeightsAreRefusedToAllRanksButTheirOwn) {
  run("quantised-weights-off-training-device/first-device --ranks 3");
  const auto refused = [this](int rank) {
    const auto errors = errors_of("first-device");
    const auto error = errors.find(rank);
    return error != errors.end() &&
           error->second.find(
               "8-bit or 4-bit precision on a different device than the one you're "
               "training on") != std::string::npos;
  };
  EXPECT_FALSE(refused(0));
  EXPECT_TRUE(refused(1));
  EXPECT_TRUE(refused(2));
}

}  // namespace
}  // namespace lockstep
