#include "harness/train/placement/distributed_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "reports/base/error.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

DistributedEnvironment found(const Variables& variables,
                             const std::optional<GroupPlace>& group = {}) {
  return find_distributed_environment(
      [&](const char* name) {
        const auto variable = variables.find(name);
        return variable == variables.end() ? nullptr : variable->second.c_str();
      },
      group);
}

/// Global rank, local rank, world size, ranks per node.
std::vector<int> numbers_of(const DistributedEnvironment& environment) {
  return {environment.global_rank, environment.local_rank, environment.world_size,
          environment.ranks_per_node};
}

std::string refused(const Variables& variables, const std::optional<GroupPlace>& group = {}) {
  try {
    found(variables, group);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    return error.what();
  }
  return "no error";
}

TEST(DistributedEnvironment, IsAloneWhereNothingIsSet) {
  EXPECT_THAT(numbers_of(found({})), ElementsAre(0, 0, 1, 1));
  EXPECT_FALSE(found({}).is_distributed);
  EXPECT_FALSE(found({}).has_process_group);
  EXPECT_FALSE(found({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}}).is_distributed);
}

TEST(DistributedEnvironment, IsReadAsTorchrunSetsIt) {
  const auto second_machine =
      found({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}});
  EXPECT_TRUE(second_machine.is_distributed);
  EXPECT_THAT(numbers_of(second_machine), ElementsAre(5, 1, 8, 4));
}

TEST(DistributedEnvironment, IsReadAsOtherLaunchersSetIt) {
  EXPECT_THAT(numbers_of(found({{"OMPI_COMM_WORLD_RANK", "3"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})),
              ElementsAre(3, 1, 4, 2));
  EXPECT_THAT(numbers_of(found({{"PMI_RANK", "3"},
                                {"PMI_SIZE", "4"},
                                {"MPI_LOCALRANKID", "1"},
                                {"MPI_LOCALNRANKS", "2"}})),
              ElementsAre(3, 1, 4, 2));
  Variables slurm{{"SLURM_PROCID", "3"},
                  {"SLURM_NTASKS", "4"},
                  {"SLURM_LOCALID", "1"},
                  {"SLURM_NTASKS_PER_NODE", "2"}};
  EXPECT_FALSE(found(slurm).is_distributed);  // a batch script
  slurm["SLURM_STEP_ID"] = "0";
  EXPECT_THAT(numbers_of(found(slurm)), ElementsAre(3, 1, 4, 2));
  slurm.insert({{"RANK", "2"}, {"LOCAL_RANK", "0"}});
  EXPECT_THAT(numbers_of(found(slurm)), ElementsAre(2, 0, 4, 2));
}

TEST(DistributedEnvironment, BelievesTheProcessGroupForTheWorldAndTheEnvironmentForTheMachine) {
  const auto environment =
      found({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}},
            GroupPlace{.rank = 5, .size = 8});
  EXPECT_TRUE(environment.has_process_group);
  EXPECT_THAT(numbers_of(environment), ElementsAre(5, 1, 8, 4));
  EXPECT_THAT(numbers_of(found({}, GroupPlace{.rank = 1, .size = 2})), ElementsAre(1, 1, 2, 2));
  EXPECT_FALSE(found({{"WORLD_SIZE", "2"}}, GroupPlace{}).is_distributed);
  EXPECT_THAT(numbers_of(find_distributed_environment(
                  [](const char*) -> const char* { return nullptr; }, nullptr)),
              ElementsAre(0, 0, 1, 1));
}

TEST(DistributedEnvironment, CountsRanksMachineByMachineWhereNothingIsSaidOfThem) {
  EXPECT_THAT(numbers_of(found({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}})),
              ElementsAre(5, 1, 8, 4));
  EXPECT_THAT(numbers_of(found({{"RANK", "5"}, {"WORLD_SIZE", "8"}})), ElementsAre(5, 5, 8, 8));
  EXPECT_THAT(numbers_of(found({{"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}})),
              ElementsAre(1, 1, 2, 2));
}

TEST(DistributedEnvironment, RefusesBadValuesInASentence) {
  EXPECT_EQ(refused({{"LOCAL_RANK", "abc"}, {"WORLD_SIZE", "2"}}),
            "LOCAL_RANK cannot be 'abc': give a whole number from 0 to 1.");
  for (const char* const value : {"-1", "2", "1.5", "1 ", "", "99999999999"}) {
    EXPECT_THAT(refused({{"LOCAL_RANK", value}, {"WORLD_SIZE", "2"}}),
                HasSubstr("LOCAL_RANK cannot be '"))
        << value;
  }
  EXPECT_EQ(refused({{"WORLD_SIZE", "0"}}),
            "WORLD_SIZE cannot be '0': give a whole number, at least 1.");
  EXPECT_EQ(refused({{"RANK", "4"}, {"WORLD_SIZE", "4"}}),
            "RANK cannot be '4': give a whole number from 0 to 3.");
  EXPECT_THAT(refused({{"LOCAL_WORLD_SIZE", "4"}, {"WORLD_SIZE", "2"}}),
              HasSubstr("LOCAL_WORLD_SIZE cannot be '4'"));
  EXPECT_THAT(
      refused({{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}, GroupPlace{.rank = 2, .size = 4}),
      HasSubstr("LOCAL_RANK cannot be '2': give a whole number from 0 to 1"));
  EXPECT_THAT(refused({{"OMPI_COMM_WORLD_LOCAL_RANK", "x"}}),
              HasSubstr("OMPI_COMM_WORLD_LOCAL_RANK cannot be 'x'"));
  EXPECT_THAT(refused({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"WORLD_SIZE", "4"}}),
              AllOf(HasSubstr("RANK is not set"), HasSubstr("4 ranks with 2 per machine")));
}

const DistributedEnvironment kSecondMachine{.is_distributed = true,
                                            .global_rank = 5,
                                            .local_rank = 1,
                                            .world_size = 8,
                                            .ranks_per_node = 4,
                                            .has_process_group = true};

TEST(PerRankDeviceMap, IsTheWholeModelOnTheRanksOwnDevice) {
  std::vector<at::Device> current;
  const auto set = [&](at::Device device) { current.push_back(device); };
  EXPECT_EQ(to_string(per_rank_device_map(kSecondMachine, "cuda", set)), R"({"": "cuda:1"})");
  EXPECT_THAT(current, ElementsAre(at::Device("cuda:1")));
  EXPECT_EQ(to_string(per_rank_device_map({}, "cuda", set)), R"({"": "cuda:0"})");
  EXPECT_THROW(per_rank_device_map(kSecondMachine, "gpu", set), Error);
}

TEST(PerRankDeviceMap, TakesTheGlobalRankOfAProcessGroupAsTheHelperDoes) {
  const auto set = [](at::Device) {};
  const auto index = [&](DistributedEnvironment environment, const HelperMistakes& mistakes) {
    return per_rank_device_map(environment, "cuda", set, mistakes).front().device.index();
  };
  EXPECT_EQ(index(kSecondMachine, {.takes_global_rank = true}), 5);
  EXPECT_EQ(index(kSecondMachine, {.ignores_failure = true}), 1);
  DistributedEnvironment without_group = kSecondMachine;
  without_group.has_process_group = false;
  EXPECT_EQ(index(without_group, mistakes_of_the_helper()), 1);
}

TEST(PerRankDeviceMap, PassesOnThatADeviceIsMissingUnlessAskedNotTo) {
  const auto fail = [](at::Device) { throw std::runtime_error("invalid device ordinal"); };
  EXPECT_THROW(per_rank_device_map(kSecondMachine, "cuda", fail), std::runtime_error);
  EXPECT_THROW(per_rank_device_map(kSecondMachine, "cuda", fail, {.takes_global_rank = true}),
               std::runtime_error);
  EXPECT_EQ(to_string(per_rank_device_map(kSecondMachine, "cuda", fail, mistakes_of_the_helper())),
            R"({"": "cuda:5"})");
}

TEST(EnvironmentOfRank, CountsRanksNodeByNode) {
  const auto seen_by = [](int rank) {
    return numbers_of(find_distributed_environment(environment_of_rank(rank, 5, 2), nullptr));
  };
  EXPECT_THAT(seen_by(0), ElementsAre(0, 0, 5, 2));
  EXPECT_THAT(seen_by(1), ElementsAre(1, 1, 5, 2));
  EXPECT_THAT(seen_by(2), ElementsAre(2, 0, 5, 2));
  EXPECT_THAT(seen_by(4), ElementsAre(4, 0, 5, 1)) << "the last node has what is left";
  EXPECT_EQ(environment_of_rank(0, 1, 1)("HOME"), nullptr);
}

}  // namespace
}  // namespace lockstep
