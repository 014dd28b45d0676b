#include "harness/plan/select_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>  // program_invocation_short_name
#include <set>

#include "harness/plan/reproduce.h"
#include "reports/base/error.h"
#include "tests/plan/literal_scenario.h"

namespace lockstep {
namespace {

/// A report names the program that wrote it.
const std::string kProgram = program_invocation_short_name;

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const std::vector<Scenario> kScenarios{literal_scenario(), literal_scenario("second-class")};

Selection of(const std::vector<std::string>& names) {
  Selection selection;
  selection.names = names;
  return selection;
}

/// The folders of the cells, each with every axis of its variant.
std::vector<std::string> folders_of(const Plan& plan) {
  std::vector<std::string> folders;
  for (const PlannedCell& planned : plan.cells) {
    Cell named = planned.cell;
    for (AxisValue& chosen : named.axes) chosen.is_default = false;
    folders.push_back(folder_of(named));
  }
  return folders;
}

std::vector<std::string> folders_of(const Selection& selection) {
  return folders_of(select_cells(kScenarios, selection));
}

std::string refusal_of(const Selection& selection) {
  try {
    select_cells(kScenarios, selection);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    return error.what();
  }
  return "accepted";
}

const PlannedCell& cell_of(const Plan& plan, const std::string& variant) {
  const auto found = std::find_if(plan.cells.begin(), plan.cells.end(),
                                  [&](const PlannedCell& p) { return p.cell.variant == variant; });
  EXPECT_NE(found, plan.cells.end()) << variant;
  return *found;
}

TEST(SelectCells, OfAScenarioAreItsVariantsInTheirOrderReferencesLast) {
  EXPECT_THAT(
      folders_of(of({"bug-class"})),
      ElementsAre("bug-class/bug/w2-rate=slow-tiles=2", "bug-class/fix/w2-rate=slow",
                  "bug-class/other/w2-rate=slow-shapes=same", "bug-class/plain/w2-rate=slow",
                  "bug-class/special/w2-rate=slow-shapes=same"));
}

TEST(SelectCells, OfNoNameAreThoseOfEveryScenario) {
  const std::vector<std::string> all = folders_of(of({}));
  EXPECT_THAT(all, SizeIs(10));
  EXPECT_EQ(all[5], "second-class/bug/w2-rate=slow-tiles=2");
}

TEST(SelectCells, OfAVariantBringItsOwnReferenceAlong) {
  EXPECT_THAT(folders_of(of({"bug-class/fix"})),
              ElementsAre("bug-class/fix/w2-rate=slow", "bug-class/plain/w2-rate=slow"));
  EXPECT_THAT(folders_of(of({"bug-class/other"})),
              ElementsAre("bug-class/other/w2-rate=slow-shapes=same",
                          "bug-class/special/w2-rate=slow-shapes=same"));
  EXPECT_THAT(folders_of(of({"bug-class/plain"})), ElementsAre("bug-class/plain/w2-rate=slow"));
}

TEST(SelectCells, BringAReferenceOnceForAllThatAreComparedWithIt) {
  EXPECT_THAT(folders_of(of({"bug-class/bug", "bug-class/fix", "bug-class/plain"})),
              ElementsAre("bug-class/bug/w2-rate=slow-tiles=2", "bug-class/fix/w2-rate=slow",
                          "bug-class/plain/w2-rate=slow"));
}

TEST(SelectCells, GiveAReferenceTheAxisValuesThatItDependsOn) {
  Selection selection = of({"bug-class/bug", "bug-class/other"});
  selection.axes = {{"rate", "fast"}, {"tiles", "4"}, {"shapes", "mixed"}};
  EXPECT_THAT(
      folders_of(selection),
      ElementsAre("bug-class/bug/w2-rate=fast-tiles=4", "bug-class/other/w2-rate=fast-shapes=mixed",
                  "bug-class/plain/w2-rate=fast", "bug-class/special/w2-rate=fast-shapes=mixed"));
}

TEST(SelectCells, MakeTheClaimsOfScenarioAndVariantAndOfAReferenceThatItFinishes) {
  const Plan plan = select_cells(kScenarios, of({"bug-class"}));
  EXPECT_EQ(cell_of(plan, "fix").claims, kScenarios[0].claims);
  EXPECT_THAT(cell_of(plan, "other").claims,
              ElementsAre(kScenarios[0].claims[0], ranks_finish(),
                          agree_across_ranks(Kind::buffer, Phase::pre_forward)));
  EXPECT_THAT(cell_of(plan, "special").claims, ElementsAre(ranks_finish()));
  EXPECT_THAT(cell_of(plan, "bug").expectation.breaks, SizeIs(1));
}

TEST(SelectCells, TakeStepsAndSeedFromTheRequestElseTheScenario) {
  Selection selection = of({"bug-class/bug"});
  EXPECT_EQ(cell_of(select_cells(kScenarios, selection), "bug").cell.steps, 3);
  selection.steps = 7;
  selection.seed = 5;
  const Plan plan = select_cells(kScenarios, selection);
  for (const char* variant : {"bug", "plain"}) {
    EXPECT_EQ(cell_of(plan, variant).cell.steps, 7);
    EXPECT_EQ(cell_of(plan, variant).cell.seed, 5U);
  }
}

TEST(SelectCells, OfAWorldSizeThatIsNotSupportedDoNotApplyAndBringNoReference) {
  Selection selection = of({"bug-class/bug"});
  selection.world_sizes = {2, 3};
  const Plan plan = select_cells(kScenarios, selection);
  EXPECT_THAT(folders_of(plan),
              ElementsAre("bug-class/bug/w2-rate=slow-tiles=2", "bug-class/plain/w2-rate=slow",
                          "bug-class/bug/w3-rate=slow-tiles=2"));
  EXPECT_EQ(plan.cells[0].expectation.not_applicable, "");
  EXPECT_EQ(plan.cells[2].expectation.not_applicable, "supports world sizes 2, 4, not 3");
}

/// The literal scenario on all kinds of devices; "bug" needs as many as it has tiles.
Scenario scenario_on_devices() {
  Scenario scenario = literal_scenario();
  scenario.devices = {DeviceKind::sim, DeviceKind::cuda};
  scenario.device_needs = [](const Cell& cell) {
    return DeviceNeeds{has_axis(cell, "tiles") ? std::stoi(axis_value(cell, "tiles")) : 1};
  };
  return scenario;
}

Selection on_gpus(int count) {
  Selection selection = of({"bug-class/bug"});
  selection.device = DeviceKind::cuda;
  selection.gpus = GpusHere{count, count > 0 ? "" : "the driver knows no device. Remedy: a driver"};
  return selection;
}

/// Why the cell of "bug" with this many tiles, each on its own device, is not run.
std::string objection_with(int gpus, const std::string& tiles) {
  Selection selection = on_gpus(gpus);
  selection.axes = {{"tiles", tiles}};
  const Plan plan = select_cells({scenario_on_devices()}, selection);
  EXPECT_EQ(plan.cells.at(0).cell.device, DeviceKind::cuda);
  return plan.cells.at(0).expectation.not_applicable;
}

TEST(SelectCells, AreOnTheDeviceAskedForElseTheStandardOne) {
  Selection selection = of({"bug-class/bug"});
  for (const auto& [asked, device] :
       {std::pair<std::optional<DeviceKind>, DeviceKind>({}, DeviceKind::sim),
        {DeviceKind::sim, DeviceKind::sim}}) {
    selection.device = asked;
    for (const PlannedCell& planned : select_cells({scenario_on_devices()}, selection).cells) {
      EXPECT_EQ(planned.cell.device, device);
      EXPECT_EQ(planned.expectation.not_applicable, "");
    }
  }
  EXPECT_EQ(select_cells(kScenarios, of({"bug-class/bug"})).cells.at(0).cell.device,
            DeviceKind::cpu);
}

TEST(SelectCells, HaveTheirReferenceOnTheSameDevice) {
  const Plan plan = select_cells({scenario_on_devices()}, on_gpus(8));
  ASSERT_THAT(plan.cells, SizeIs(2));
  EXPECT_EQ(plan.cells[1].cell.role, Role::reference);
  EXPECT_EQ(plan.cells[1].cell.device, DeviceKind::cuda);
}

TEST(SelectCells, OfADeviceThatIsNotSupportedDoNotApplyAndBringNoReference) {
  Selection selection = of({"bug-class/bug"});
  selection.device = DeviceKind::cpu;
  const Plan plan = select_cells({scenario_on_devices()}, selection);
  ASSERT_THAT(plan.cells, SizeIs(1));
  EXPECT_EQ(plan.cells[0].expectation.not_applicable, "runs on sim or cuda, not on cpu");
  selection.device = DeviceKind::cuda;
  EXPECT_EQ(select_cells(kScenarios, selection).cells.at(0).expectation.not_applicable,
            "runs on cpu, not on cuda");
}

TEST(SelectCells, OfTwoGpusDoNotApplyToOneWhereTheCpuIsNoStandIn) {
  Scenario scenario = scenario_on_devices();
  scenario.device_needs = [](const Cell&) { return DeviceNeeds{2, false}; };
  const auto objection = [&](int gpus) {
    return select_cells({scenario}, on_gpus(gpus)).cells.at(0).expectation.not_applicable;
  };
  EXPECT_EQ(objection(1), "needs 2 GPUs, but there is 1");
  EXPECT_EQ(objection(2), "");
}

TEST(SelectCells, WithoutAGpuDoNotApplyAndSayWhatHelps) {
  EXPECT_EQ(objection_with(0, "1"),
            "there is no GPU: the driver knows no device. Remedy: a driver");
  Selection selection = on_gpus(0);
  selection.names = {"bug-class"};
  for (const PlannedCell& planned : select_cells({scenario_on_devices()}, selection).cells) {
    EXPECT_THAT(planned.expectation.not_applicable, HasSubstr("there is no GPU"))
        << planned.cell.variant;
  }
}

TEST(SelectCells, AreOverTheBackendAskedForButForTheirReference) {
  const Plan over_gloo = select_cells(kScenarios, of({"bug-class/bug"}));
  Selection selection = of({"bug-class/bug", "bug-class/plain"});
  selection.backend = Backend::mpi;
  const Plan plan = select_cells(kScenarios, selection);
  ASSERT_THAT(plan.cells, SizeIs(2));
  EXPECT_EQ(plan.cells[0].cell.backend, Backend::mpi);
  EXPECT_THAT(folder_of(kScenarios[0], plan.cells[0].cell), HasSubstr("/w2-backend=mpi"));
  EXPECT_THAT(reproducing_command(plan.cells[0]), HasSubstr(" --backend mpi"));
  EXPECT_EQ(plan.cells[1].cell, over_gloo.cells.at(1).cell) << "the same process";
  EXPECT_EQ(reference_cell(kScenarios[0], *plan.cells[0].variant, plan.cells[0].cell),
            plan.cells[1].cell);
}

TEST(SelectCells, OverNcclTrainOnGpusOneARank) {
  Selection selection = on_gpus(1);
  selection.backend = Backend::nccl;
  selection.axes = {{"tiles", "1"}};
  selection.device.reset();
  Scenario scenario = scenario_on_devices();
  scenario.devices = {DeviceKind::cpu, DeviceKind::sim, DeviceKind::cuda};
  const auto objection = [&] {
    return select_cells({scenario}, selection).cells.at(0).expectation.not_applicable;
  };
  EXPECT_EQ(objection(), "nccl needs a GPU for each of 2 ranks, but there is 1");
  selection.gpus->count = 2;
  EXPECT_EQ(objection(), "");
  selection.device = DeviceKind::sim;
  EXPECT_EQ(objection(), "nccl connects GPUs, but this cell trains on sim");
  selection.device.reset();
  EXPECT_EQ(select_cells(kScenarios, selection).cells.at(0).expectation.not_applicable,
            "runs on cpu, not on cuda");
}

TEST(SelectCells, OverNcclShareNoGpus) {
  Selection selection = on_gpus(2);
  selection.backend = Backend::nccl;
  EXPECT_EQ(select_cells({scenario_on_devices()}, selection).cells.at(0).expectation.not_applicable,
            "its ranks share GPUs, and nccl needs one of its own for each");
}

TEST(SelectCells, OverNcclWhoseCallsDoNotMatchDoNotApply) {
  Scenario scenario = literal_scenario();
  scenario.devices = {DeviceKind::cpu, DeviceKind::cuda};
  scenario.expect = [](const Cell& cell) {
    Expectation expectation;
    if (cell.role == Role::buggy) expectation.breaks = {collectives_match()};
    return expectation;
  };
  Selection selection = on_gpus(2);
  selection.backend = Backend::nccl;
  EXPECT_EQ(select_cells({scenario}, selection).cells.at(0).expectation.not_applicable,
            "nobody has seen what nccl does with calls that do not match");
  selection.backend = Backend::gloo;
  EXPECT_EQ(select_cells({scenario}, selection).cells.at(0).expectation.not_applicable, "");
}

TEST(SelectCells, OverMpiTrainOnNoGpus) {
  Selection selection = on_gpus(2);
  selection.backend = Backend::mpi;
  EXPECT_EQ(select_cells({scenario_on_devices()}, selection).cells.at(0).expectation.not_applicable,
            "mpi takes tensors of the CPU, but this cell trains on cuda");
  selection.device = DeviceKind::sim;
  EXPECT_EQ(select_cells({scenario_on_devices()}, selection).cells.at(0).expectation.not_applicable,
            "");
}

TEST(SelectCells, ThatCoverPairsHaveReferencesThatRun) {
  Scenario scenario = literal_scenario();
  scenario.precondition = [](const Cell& cell) {
    const bool is_fast = is_set(cell, "rate", "fast");
    return std::string(cell.role == Role::reference && is_fast ? "it is not to be" : "");
  };
  Selection selection = of({"bug-class/bug"});
  selection.matrix = true;
  selection.max_cells = 4;
  for (const PlannedCell& planned : select_cells({scenario}, selection).cells) {
    EXPECT_EQ(planned.expectation.not_applicable, "") << folder_of(scenario, planned.cell);
  }
}

TEST(SelectCells, WhoseReferenceCannotRunDoNotApply) {
  Scenario scenario = literal_scenario();
  scenario.precondition = [](const Cell& cell) {
    return std::string(cell.variant == "plain" ? "it is not to be" : "");
  };
  const Plan plan = select_cells({scenario}, of({"bug-class/bug", "bug-class/other"}));
  EXPECT_EQ(cell_of(plan, "bug").expectation.not_applicable,
            "its reference cannot run: it is not to be");
  EXPECT_EQ(cell_of(plan, "other").expectation.not_applicable, "") << "it has another one";
}

TEST(SelectCells, OfAReferenceNeedOneGpu) {
  Selection selection = on_gpus(1);
  selection.names = {"bug-class/plain"};
  Scenario scenario = scenario_on_devices();
  scenario.device_needs = [](const Cell&) { return DeviceNeeds{4, false}; };
  EXPECT_EQ(select_cells({scenario}, selection).cells.at(0).expectation.not_applicable, "");
}

TEST(SelectCells, WithTooFewGpusDoNotApply) {
  EXPECT_EQ(objection_with(2, "4"), "needs 4 GPUs, but there are 2");
  EXPECT_EQ(objection_with(1, "4"), "needs 4 GPUs, but there is 1");
  EXPECT_EQ(objection_with(4, "4"), "");
  EXPECT_EQ(objection_with(2, "2"), "");
}

TEST(SelectCells, OfTwoDevicesTakeTheCpuForTheSecond) { EXPECT_EQ(objection_with(1, "2"), ""); }

TEST(SelectCells, NeedGpusOnlyWhereAScenarioTrainsOnThem) {
  Selection selection = on_gpus(0);
  EXPECT_TRUE(needs_gpus({scenario_on_devices()}, selection));
  EXPECT_FALSE(needs_gpus(kScenarios, selection));
  selection.device.reset();
  EXPECT_FALSE(needs_gpus({scenario_on_devices()}, selection));
  Scenario on_gpus_first = scenario_on_devices();
  on_gpus_first.devices = {DeviceKind::cuda, DeviceKind::cpu};
  EXPECT_TRUE(needs_gpus({on_gpus_first}, selection));
  selection.names = {"second-class"};
  EXPECT_FALSE(needs_gpus({on_gpus_first, kScenarios[1]}, selection));
}

TEST(SelectCells, OfAValueThatOneScenarioOnlyHasDoNotApplyElsewhere) {
  std::vector<Scenario> scenarios = kScenarios;
  scenarios[1].axes[0].values = {"slow", "fast", "steep"};
  Selection selection = of({"bug-class/fix", "second-class/fix"});
  selection.axes = {{"rate", "steep"}};
  const Plan plan = select_cells(scenarios, selection);
  EXPECT_EQ(plan.cells.at(0).expectation.not_applicable, "axis rate has no value steep");
  EXPECT_EQ(plan.cells.at(1).expectation.not_applicable, "");
}

TEST(SelectCells, RefuseAnAxisThatNoVariantAskedForDependsOn) {
  Selection selection = of({"bug-class/fix"});
  selection.axes = {{"tiles", "4"}};
  EXPECT_THAT(refusal_of(selection), HasSubstr("There is no axis 'tiles'"));
  selection.axes = {{"shapes", "mixed"}};
  EXPECT_THAT(refusal_of(selection), HasSubstr("There is no axis 'shapes'"));
  selection.axes = {{"rate", "slwo"}};
  EXPECT_THAT(refusal_of(selection), AllOf(HasSubstr("value of axis rate"), HasSubstr("'slow'")));
  selection.names = {"bug-class/other"};
  selection.axes = {{"shapes", "mixed"}};
  EXPECT_EQ(refusal_of(selection), "accepted");
}

TEST(SelectCells, RefuseNamesThatDoNotExist) {
  EXPECT_THAT(refusal_of(of({"bug-clas"})), HasSubstr("'bug-class'"));
  EXPECT_THAT(refusal_of(of({"bug-class/bgu"})), HasSubstr("'bug'"));
}

TEST(SelectCells, OfSeveralRepetitionsAreAllCellsAgain) {
  Selection selection = of({"bug-class/fix"});
  selection.repetitions = 3;
  EXPECT_THAT(folders_of(selection),
              ElementsAre("bug-class/fix/w2-rate=slow", "bug-class/plain/w2-rate=slow",
                          "bug-class/fix/w2-rate=slow-repetition=2",
                          "bug-class/plain/w2-rate=slow-repetition=2",
                          "bug-class/fix/w2-rate=slow-repetition=3",
                          "bug-class/plain/w2-rate=slow-repetition=3"));
}

TEST(ReferenceCell, IsThatOfTheSameRepetition) {
  Selection selection = of({"bug-class/fix"});
  selection.repetitions = 2;
  const PlannedCell again = select_cells(kScenarios, selection).cells.at(2);
  const auto reference = reference_cell(*again.scenario, *again.variant, again.cell);
  ASSERT_TRUE(reference);
  EXPECT_EQ(folder_of(*reference), "bug-class/plain/w2-repetition=2");
  EXPECT_EQ(reference->role, Role::reference);
}

TEST(ReferenceCell, IsNothingForAReferenceOrWithoutOne) {
  Scenario scenario = literal_scenario();
  EXPECT_FALSE(reference_cell(scenario, scenario.variants[3], Cell{}));
  scenario.variants.resize(2);
  EXPECT_FALSE(reference_cell(scenario, scenario.variants[0], Cell{}));
}

TEST(FolderOf, LeavesOutAxesAtTheirStandardValue) {
  Selection selection = of({"bug-class/bug"});
  const auto folder = [&] {
    const Plan plan = select_cells(kScenarios, selection);
    return folder_of(kScenarios[0], plan.cells.at(0).cell);
  };
  EXPECT_EQ(folder(), "bug-class/bug/w2");
  selection.axes = {{"tiles", "4"}};
  EXPECT_EQ(folder(), "bug-class/bug/w2-tiles=4");
  selection.axes = {{"rate", "fast"}, {"tiles", "1"}};
  EXPECT_EQ(folder(), "bug-class/bug/w2-rate=fast-tiles=1");
}

TEST(SelectCells, KnowWhichChoicesAreDefaults) {
  for (const bool is_matrix : {false, true}) {
    Selection selection = of({});
    selection.matrix = is_matrix;
    selection.axes = {{"rate", "slow"}};  // the default
    std::set<bool> found;
    for (const PlannedCell& planned : select_cells(kScenarios, selection).cells) {
      for (const AxisValue& chosen : planned.cell.axes) {
        const std::vector<Axis>& axes = planned.scenario->axes;
        const auto axis = std::find_if(axes.begin(), axes.end(),
                                       [&](const Axis& one) { return one.name == chosen.axis; });
        EXPECT_EQ(chosen.is_default, chosen.value == axis->default_value)
            << title_of(planned.cell) << " " << chosen.axis;
        found.insert(chosen.is_default);
      }
    }
    EXPECT_THAT(found, SizeIs(is_matrix ? 2 : 1));
  }
}

TEST(FolderOf, KeepsAValueThatIsTheStandardOfAnotherAxis) {
  Scenario scenario = literal_scenario();
  scenario.axes = {{"a", {"on", "off"}, "on"}, {"b", {"on", "off"}, "off"}};
  const Cell cell{
      .scenario = "s", .variant = "v", .world_size = 2, .axes = {{"a", "off"}, {"b", "on"}}};
  EXPECT_EQ(folder_of(scenario, cell), "s/v/w2-a=off-b=on");
}

TEST(FolderOf, LeavesOutTheStandardDevice) {
  const Scenario scenario = scenario_on_devices();
  Cell cell{.scenario = "s", .variant = "v", .world_size = 2, .device = DeviceKind::sim};
  EXPECT_EQ(folder_of(scenario, cell), "s/v/w2");
  cell.device = DeviceKind::cuda;
  EXPECT_EQ(folder_of(scenario, cell), "s/v/w2-device=cuda");
}

TEST(FolderOf, TellsAllCellsOfAMatrixApart) {
  Selection selection = of({});
  selection.matrix = true;
  selection.world_sizes = {2, 4};
  selection.repetitions = 2;
  const Plan plan = select_cells(kScenarios, selection);
  std::set<std::string> folders;
  for (const PlannedCell& planned : plan.cells) {
    folders.insert(folder_of(*planned.scenario, planned.cell));
  }
  EXPECT_THAT(folders, SizeIs(plan.cells.size()));
}

TEST(ReproducingCommand, NamesOnlyWhatIsNoDefault) {
  Selection selection = of({"bug-class/bug"});
  const auto command = [&] {
    return reproducing_command(select_cells(kScenarios, selection).cells.at(0));
  };
  EXPECT_EQ(command(), kProgram + " run bug-class/bug --ranks 2");
  selection.world_sizes = {4};
  selection.steps = 9;
  selection.seed = 3;
  selection.axes = {{"tiles", "4"}, {"rate", "fast"}};
  EXPECT_EQ(
      command(),
      kProgram + " run bug-class/bug --ranks 4 --steps 9 --seed 3 --set rate=fast --set tiles=4");
}

TEST(ReproducingCommand, SaysWhatBecomesOfCollectivesButOfNoReference) {
  Selection selection = of({"bug-class/bug"});
  for (const Collectives collectives : {Collectives::off, Collectives::check}) {
    selection.collectives = collectives;
    const Plan plan = select_cells(kScenarios, selection);
    for (const PlannedCell& planned : plan.cells) {
      const bool is_reference = planned.cell.role == Role::reference;
      EXPECT_EQ(planned.cell.collectives, is_reference ? Collectives::log : collectives);
      EXPECT_EQ(reproducing_command(planned).find("--collectives") == std::string::npos,
                is_reference);
    }
  }
}

TEST(ReproducingCommand, KeepsTheLauncher) {
  const Plan plan = select_cells(kScenarios, of({"bug-class/bug"}));
  EXPECT_EQ(reproducing_command(plan.cells.at(0), "mpirun -n {ranks}"),
            kProgram + " run bug-class/bug --ranks 2 --launcher 'mpirun -n {ranks}'");
  EXPECT_THAT(arguments_of(plan.cells.at(0)), ElementsAre("run", "bug-class/bug", "--ranks", "2"));
}

TEST(ReproducingCommand, NamesADeviceThatIsNoDefault) {
  const auto command = [](const Selection& selection) {
    return reproducing_command(select_cells({scenario_on_devices()}, selection).cells.at(0));
  };
  EXPECT_EQ(command(of({"bug-class/bug"})), kProgram + " run bug-class/bug --ranks 2");
  Selection selection = on_gpus(2);
  selection.axes = {{"tiles", "1"}};
  EXPECT_EQ(command(selection),
            kProgram + " run bug-class/bug --ranks 2 --device cuda --set tiles=1");
}

}  // namespace
}  // namespace lockstep
