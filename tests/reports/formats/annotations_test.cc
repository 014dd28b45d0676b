#include "reports/formats/annotations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "tests/command.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_run.h"
#include "tests/reports/formats/nasty_run.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr const char* kScenario = "scenarios/synchronisation/loss_on_unwrapped_module.cc";

/// A command as the runner of GitHub Actions reads it.
struct Command {
  std::string name;
  std::map<std::string, std::string> properties;
  std::string message;
};

std::string unescaped(std::string text) {
  for (const auto& [code, character] :
       {std::pair("%0D", "\r"), {"%0A", "\n"}, {"%3A", ":"}, {"%2C", ","}, {"%25", "%"}}) {
    for (auto at = text.find(code); at != text.npos; at = text.find(code, at + 1)) {
      text.replace(at, 3, character);
    }
  }
  return text;
}

/// By the runner's rules (ActionCommand.TryParseV2 in github.com/actions/runner): the command ends
/// at the first `::`, and a comma ends a property.
Command parsed(const std::string& line) {
  const std::regex grammar(
      R"(::([a-z]+)((?: (?:[a-z]+=[^,:\r\n]*)(?:,[a-z]+=[^,:\r\n]*)*)?)::([^\r\n]*))");
  std::smatch parts;
  Command command;
  if (!std::regex_match(line, parts, grammar)) {
    ADD_FAILURE() << "no command: " << line;
    return command;
  }
  command.name = parts[1];
  const std::string properties = parts[2];
  const std::regex property("([a-z]+)=([^,]*)");
  for (std::sregex_iterator at(properties.begin(), properties.end(), property), end; at != end;
       ++at) {
    command.properties[(*at)[1]] = unescaped((*at)[2]);
  }
  command.message = unescaped(parts[3]);
  return command;
}

std::vector<Command> commands_of(const RunRecord& run) {
  std::vector<Command> commands;
  for (const std::string& line : lines_of(annotations(run))) commands.push_back(parsed(line));
  return commands;
}

TEST(Annotations, NameThePlaceTheSymptomAndTheCommandThatRunsItAgain) {
  RunRecord run;
  run.cells = {literal_false_alarm()};
  EXPECT_EQ(annotations(run),
            "::error file=scenarios/synchronisation/loss_on_unwrapped_module.cc,line=41,"
            "title=Lockstep%3A FAILED%3A loss-on-unwrapped-module/through-wrapper%2C 2 ranks::"
            "ranks agree but are wrong from step 1 on: weight, ratio 0.25, cosine 0.98%0A"
            "gradients differ between ranks: weight in step 1, 16 of 16 elements, by up to 0.2; "
            "still in step 5 (max 1e-300); ranks 0,2,3 against rank 1; it is a mean of different "
            "tensors%0Aagain: lockstep run loss-on-unwrapped-module/through-wrapper --ranks 2 "
            "--steps 5\n");
}

TEST(Annotations, AreErrorsForFailuresFirstThenWarningsForTheUndecided) {
  const std::vector<Command> commands = commands_of(literal_run());
  ASSERT_THAT(commands, SizeIs(4));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(commands[i].name, i < 3 ? "error" : "warning");
    EXPECT_EQ(commands[i].properties.at("file"), kScenario);
    EXPECT_EQ(commands[i].properties.at("line"), "41");
  }
  EXPECT_THAT(commands[2].properties.at("title"), StartsWith("Lockstep: NOT FOUND: error-after"));
  EXPECT_THAT(commands[3].properties.at("title"), StartsWith("Lockstep: UNDECIDED: "));
}

TEST(Annotations, AreNoneForWhatIsAsExpectedOrNotApplicable) {
  RunRecord run;
  run.cells = {literal_buggy(), literal_fixed(1), literal_not_applicable()};
  run.jobs = {literal_job("aa")};
  EXPECT_EQ(annotations(run), "");
  EXPECT_EQ(annotations({}), "");
}

TEST(Annotations, OfAJobNameTheLineOfTheMismatchedCall) {
  RunRecord run = literal_jobs();
  run.jobs[1].mismatch = literal_mismatch();
  const std::vector<Command> commands = commands_of(run);
  ASSERT_THAT(commands, SizeIs(4));
  EXPECT_EQ(commands[0].properties.at("file"), "sync.cc") << "of a rank that waits";
  EXPECT_EQ(commands[0].properties.at("line"), "36");
  EXPECT_FALSE(commands[1].properties.contains("file"));
  run.jobs[1].mismatch->rows[1].calls[1] = {"barrier", "train.py:7", false, 0};
  EXPECT_EQ(commands_of(run)[0].properties.at("line"), "7") << "of the rank at fault";
}

TEST(Annotations, AreTenAtMostAndCountTheOthers) {
  RunRecord run;
  for (int i = 0; i < 10'000; ++i) {
    run.cells.push_back(i % 2 == 0 ? literal_undecided() : literal_false_alarm());
    run.cells.back().cell.variant = "variant-" + std::to_string(i);
  }
  const std::vector<Command> commands = commands_of(run);
  ASSERT_THAT(commands, SizeIs(kMostAnnotations));
  EXPECT_THAT(commands[0].properties.at("title"), HasSubstr("/variant-1,"));
  EXPECT_THAT(commands[8].properties.at("title"), HasSubstr("/variant-17,"));
  EXPECT_EQ(commands[9].properties.at("title"), "Lockstep: 9991 more");
  EXPECT_FALSE(commands[9].properties.contains("file"));
}

TEST(Annotations, CountTheCellsOfAVariantInOne) {
  RunRecord run;
  run.cells = {literal_false_alarm(), literal_false_alarm(), literal_false_alarm()};
  const std::vector<Command> commands = commands_of(run);
  ASSERT_THAT(commands, SizeIs(1));
  EXPECT_THAT(commands[0].message, HasSubstr("\n2 more cells like this"));
}

TEST(Annotations, AreOneLineWhateverTheText) {
  for (const std::string& text :
       {kNasty, std::string("\n::error::pwned\n"), std::string("\r\n::stop-commands::x"),
        std::string("::"), std::string(",line=1::x"), std::string("%0A::warning::y")}) {
    RunRecord run = nasty_run(text);
    run.jobs = literal_jobs().jobs;
    for (JobRecord& job : run.jobs) {
      job.title += text;
      job.symptom.text += text;
    }
    for (const Command& command : commands_of(run)) {
      EXPECT_TRUE(command.name == "error" || command.name == "warning");
      for (const auto& [name, value] : command.properties) {
        EXPECT_TRUE(name == "file" || name == "line" || name == "title") << name;
        EXPECT_THAT(value, AllOf(Not(HasSubstr("\n")), Not(HasSubstr("\r"))));
      }
    }
  }
}

TEST(Annotations, AreShortWhateverIsLong) {
  EXPECT_LT(annotations(nasty_run(std::string(1'000'000, 'x'))).size(), 100'000U);
}

}  // namespace
}  // namespace lockstep
