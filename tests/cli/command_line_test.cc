// The help of the command line, and its answers to wrong arguments.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/command.h"
#include "tests/cli/fake_catalogue.h"
#include "tests/golden.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// `lockstep` without a catalogue, with whatever shell words before it.
Outcome typed(const std::string& arguments, const std::string& before = "") {
  return run_shell(before + " LOCKSTEP_CATALOGUE=/nowhere " + kLockstep + " " + arguments);
}

TEST(Help, IsThatOfTheGoldens) {
  for (const auto& [arguments, file] : {std::pair("--help", "help"),
                                        {"watch --help", "help-watch"},
                                        {"report --help", "help-report"},
                                        {"diff --help", "help-diff"},
                                        {"compare --help", "help-compare"},
                                        {"explain --help", "help-explain"},
                                        {"runs --help", "help-runs"},
                                        {"pack --help", "help-pack"},
                                        {"doctor --help", "help-doctor"}}) {
    const Outcome help = typed(arguments, "COLUMNS=80");
    EXPECT_EQ(help.status, 0);
    EXPECT_EQ(help.err, "");
    expect_golden_file(std::string("cli/") + file, help.out);
  }
}

TEST(Help, KeepsToTheWidthOfTheTerminal) {
  for (const char* arguments :
       {"--help", "watch --help", "report --help", "diff --help", "compare --help",
        "explain --help", "runs --help", "pack --help", "doctor --help"}) {
    for (const std::size_t columns : {40U, 80U, 120U}) {
      for (const std::string& line :
           lines_of(typed(arguments, fmt::format("COLUMNS={}", columns)).out)) {
        // Commands and paths are never broken.
        const bool is_typed = line.starts_with("  lockstep ") || line.starts_with("Usage: ");
        const bool is_word = line.find(' ', line.find_first_not_of(' ')) == line.npos;
        if (!is_typed && !is_word) {
          EXPECT_LE(line.size(), columns) << line;
        }
      }
    }
  }
}

TEST(Help, OfEachCommandHasTwoExamplesAndItsOwnExitStatuses) {
  for (const CommandName& command : kCommands) {
    const bool is_of_the_catalogue =
        command.name == "list" || command.name == "show" || command.name == "run";
    if (is_of_the_catalogue) continue;
    const std::string help = typed(std::string(command.name) + " --help").out;
    for (const Example& example : command.examples) {
      EXPECT_THAT(help, HasSubstr(fmt::format("\n  lockstep {}\n", example.arguments)));
    }
    EXPECT_THAT(help, HasSubstr("\nExit status:\n    0  "));
    EXPECT_THAT(help, Not(HasSubstr("--require")));
  }
}

TEST(Help, IsAskedForWithAWordToo) {
  EXPECT_EQ(typed("help").out, typed("--help").out);
  EXPECT_EQ(typed("help report").out, typed("report --help").out);
  EXPECT_EQ(typed("help rnu").status, 64);
  EXPECT_EQ(FakeCatalogue("echo $1 $2").lockstep("help run").out, "run --help\n");
}

TEST(Help, StandsInForACommandThatIsMissing) {
  const Outcome outcome = typed("");
  EXPECT_EQ(outcome.status, 64) << "a script whose command came out empty must not pass";
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, typed("--help").out);
}

TEST(Help, CallsAProgramByItsOwnName) {
  const TemporaryFolder folder;
  const std::string other = (folder.path() / "my-bugs").string();
  fs::create_symlink(kLockstep, other);
  const std::string help = run_shell(other + " report --help").out;
  EXPECT_THAT(help,
              AllOf(HasSubstr("Usage: my-bugs report "), HasSubstr("  my-bugs report runs/latest"),
                    Not(HasSubstr("lockstep report"))));
  EXPECT_THAT(run_shell(other + " report nowhere").err, StartsWith("my-bugs: Cannot read nowhere"));
  EXPECT_THAT(run_shell(other + " report --fromat x").err, HasSubstr("'my-bugs report' has no"));
}

TEST(Help, IntoAFullDiskFails) {
  for (const char* arguments : {"--help", "report --help", "--version", "help doctor"}) {
    const Outcome outcome = typed(std::string(arguments) + " >/dev/full");
    EXPECT_EQ(outcome.status, 64) << arguments;
    EXPECT_EQ(outcome.err, "lockstep: Cannot write to standard output: No space left on device.\n");
  }
}

struct Mistake {
  const char* arguments;
  const char* told;

  friend std::ostream& operator<<(std::ostream& out, const Mistake& mistake) {
    return out << mistake.arguments;
  }
};

class Mistyped : public testing::TestWithParam<Mistake> {};

TEST_P(Mistyped, IsToldInOneSentenceThatHelps) {
  const Outcome outcome = typed(GetParam().arguments);
  EXPECT_EQ(outcome.status, 64);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, fmt::format("lockstep: {}\n", GetParam().told));
}

INSTANTIATE_TEST_SUITE_P(
    Options, Mistyped,
    testing::Values(
        Mistake{"report runs --fromat json",
                "'lockstep report' has no option '--fromat'. Did you mean '--format'?"},
        Mistake{"report --fromat json",
                "'lockstep report' has no option '--fromat'. Did you mean '--format'?"},
        Mistake{"report --fo=json",
                "'lockstep report' has no option '--fo'. Did you mean '--format'?"},
        Mistake{"doctor --timeuot 5",
                "'lockstep doctor' has no option '--timeuot'. Did you mean '--timeout'?"},
        Mistake{"doctor --ranks-onl",
                "'lockstep doctor' has no option '--ranks-onl'. See 'lockstep doctor --help'."},
        Mistake{"compare -x a b",
                "'lockstep compare' has no option '-x'. See 'lockstep compare --help'."},
        Mistake{"watch torchrun --nproc-per-node 2 train.py",
                "'--nproc-per-node' is no option of 'lockstep watch'; if it is one of the job's "
                "command, put -- before that command.\nUsage: lockstep watch [OPTIONS] -- "
                "COMMAND...\nSee 'lockstep watch --help'."},
        Mistake{"watch --evry 2 torchrun",
                "'lockstep watch' has no option '--evry'. Did you mean "
                "'--every'?"},
        Mistake{"watch --every 2 --every 3 -- true",
                "--every is given 2 times, not once.\nUsage: lockstep watch [OPTIONS] -- "
                "COMMAND...\nSee 'lockstep watch --help'."},
        Mistake{"watch --start 5 --until 3 -- true",
                "--until cannot be '3': give a step that is not before --start, 5."},
        Mistake{"--verison", "'lockstep' has no option '--verison'. Did you mean '--version'?"},
        Mistake{"-v", "'lockstep' has no option '-v'. See 'lockstep --help'."},
        Mistake{"--rnu report .", "'lockstep' has no option '--rnu'. See 'lockstep --help'."}));

INSTANTIATE_TEST_SUITE_P(
    Words, Mistyped,
    testing::Values(
        Mistake{"compare a b c d",
                "'lockstep compare' does not expect 'c', 'd'. Usage: lockstep compare [OPTIONS] "
                "TABLE RUN"},
        Mistake{"compare a b report",
                "'lockstep compare' does not expect 'report'. Usage: lockstep compare [OPTIONS] "
                "TABLE RUN"},
        Mistake{"doctor now please --timeout 5",
                "'lockstep doctor' does not expect 'now', 'please'. Usage: lockstep doctor "
                "[OPTIONS]"},
        Mistake{"compare a",
                "RUN is required.\nUsage: lockstep compare [OPTIONS] TABLE RUN\n"
                "See 'lockstep compare --help'."},
        Mistake{"report",
                "RUN is required.\nUsage: lockstep report [OPTIONS] RUN...\n"
                "See 'lockstep report --help'."},
        Mistake{"report . --format",
                "--format needs a value: FORMAT[,FORMAT...].\n"
                "Usage: lockstep report [OPTIONS] RUN...\n"
                "See 'lockstep report --help'."},
        Mistake{"pack",
                "RUN is required.\nUsage: lockstep pack [OPTIONS] RUN\n"
                "See 'lockstep pack --help'."},
        Mistake{"pack . --redact",
                "--redact needs a value: REGEX.\nUsage: lockstep pack [OPTIONS] RUN\n"
                "See 'lockstep pack --help'."},
        Mistake{"pack . --redact '('", "--redact cannot be '(': give a regular expression."},
        Mistake{"runs --dry-run",
                "--dry-run needs --keep or --older-than.\nUsage: lockstep runs [OPTIONS] [DIR]\n"
                "See 'lockstep runs --help'."},
        Mistake{"runs --keep -1", "--keep cannot be '-1': give a whole number from 0 to 1000000."},
        Mistake{"runs --older-than 2.5",
                "--older-than cannot be '2.5': give a whole number from 0 to 1000000."},
        Mistake{"runs --format xml", "--format cannot be 'xml': give console or json."},
        Mistake{"runs --format json --keep 1",
                "--format cannot be 'json': give console with --keep or --older-than."},
        Mistake{"rnu", "There is no command 'rnu'. Did you mean 'run'?"}));

INSTANTIATE_TEST_SUITE_P(
    Paths, Mistyped,
    testing::Values(
        Mistake{"report ''", "Cannot read '': the path is empty. Name the folder of a run."},
        Mistake{"report nowhere",
                "Cannot read nowhere: there is no such folder. Name the folder of a run."},
        Mistake{"report \"$(printf '\\233\\033[31m')\"",
                "Cannot read \\x9b\\x1b[31m: there is no such folder. Name the folder of a run."},
        Mistake{
            "report /etc/passwd",
            "Cannot read /etc/passwd: it is no pack of Lockstep. Name the folder of a run, or a "
            "file that 'lockstep pack' wrote."},
        Mistake{"report /etc",
                "Cannot read /etc: it holds no record.json. Name the folder of a run."},
        Mistake{"runs /nowhere",
                "Cannot read /nowhere: there is no such folder. Name the folder that holds the "
                "folders of runs."},
        Mistake{"runs /etc/passwd",
                "Cannot read /etc/passwd: it is a file. Name the folder that holds the folders of "
                "runs."},
        Mistake{"pack /etc",
                "Cannot read /etc: it holds no record.json. Name the folder of a run."},
        Mistake{"pack /etc/passwd",
                "Cannot read /etc/passwd: it is a file. Name the folder of a run."},
        Mistake{"compare '' x", "Cannot read '': the path is empty. Name a published table."},
        Mistake{"compare opentslm-49-drift ''",
                "Cannot read '': the path is empty. Name the folder of a run."},
        Mistake{"compare opentslm-49-drfit x",
                "There is no published table 'opentslm-49-drfit'. Did you mean "
                "'opentslm-49-drift'?"}));

/// Otherwise a misspelt setting would be left out without a word.
TEST(Settings, OfAnotherNameAreRefused) {
  const TemporaryFolder repository;
  const auto error_of = [&](const std::string& settings) {
    write_text(repository.path() / "lockstep.toml", settings);
    const Outcome outcome =
        run_shell("cd " + repository.path().string() + " && " + kLockstep + " watch -- true");
    EXPECT_EQ(outcome.status, 64) << settings;
    return outcome.err;
  };
  EXPECT_THAT(error_of("[watch]\nignroe = 'x'\n"),
              HasSubstr("There is no setting of [watch] in lockstep.toml 'ignroe'. Did you mean "
                        "'ignore'?"));
  for (const char* section : {"[wacth]\nignore = 'x'\n", "[wacth]\n"}) {
    EXPECT_THAT(error_of(section),
                HasSubstr("There is no section in lockstep.toml 'wacth'. Did you "
                          "mean 'watch'?"));
  }
  EXPECT_THAT(error_of("[watch.more]\nevery = 2\n"), HasSubstr("'watch.more'"));
  EXPECT_THAT(error_of("every = 2\n[watch]\n"),
              HasSubstr("expected all settings in the section [watch], found 'every'"));
  EXPECT_THAT(error_of("[watch]\nevery = [1, 2]\n"),
              HasSubstr("expected one value of every, found '2'"));
  EXPECT_FALSE(std::filesystem::exists(repository.path() / "runs"));
}

}  // namespace
}  // namespace lockstep
