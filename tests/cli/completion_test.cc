#include "harness/cli/completion.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>

#include "harness/cli/compare_command.h"
#include "harness/cli/diff_command.h"
#include "harness/cli/doctor_command.h"
#include "harness/cli/explain_command.h"
#include "harness/cli/pack_command.h"
#include "harness/cli/report_command.h"
#include "harness/cli/runs_command.h"
#include "harness/cli/watch_command.h"
#include "tests/cli/fake_catalogue.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

Outcome complete(const std::string& words) { return run_shell(kLockstep + " --complete " + words); }

TEST(Completion, IsOfferedForOptionsThatExist) {
  for (const Command& command :
       {watch_command(), report_command(), diff_command(), compare_command(), explain_command(),
        runs_command(), pack_command(), doctor_command()}) {
    CLI::App app;
    command.add_options(app);
    for (const auto& [option, words] : command.offered()) {
      EXPECT_NE(app.get_option_no_throw(option), nullptr) << command.name << " " << option;
      EXPECT_FALSE(words.empty()) << command.name << " " << option;
    }
  }
}

/// A command line around a value.
struct Taken {
  const char* command;  ///< up to the value
  const char* rest;     ///< a fault of another kind, so that nothing is run
};

TEST(Completion, OffersWhatCommandsTake) {
  for (const Taken& one :
       {Taken{"report --format ", " /none"}, Taken{"runs --format ", " /none"},
        Taken{"diff --format ", " /none /none"}, Taken{"diff --expect ", " /none /none /none"},
        Taken{"watch --format ", " --every 0 -- true"},
        Taken{"watch --also ", " --every 0 -- true"},
        Taken{"watch --expect ", " --every 0 -- true"},
        Taken{"watch --on-stall ", " --every 0 -- true"}, Taken{"explain ", ""},
        Taken{"compare ", " /none"}}) {
    const Outcome offered = complete(std::string(one.command) + "''");
    EXPECT_FALSE(offered.out.empty()) << one.command;
    for (std::string word : lines_of(offered.out)) {
      word.resize(word.find('\t'));
      const std::string said =
          run_shell(kLockstep + " " + one.command + word + one.rest + " 2>&1 >/dev/null").out;
      EXPECT_THAT(said, Not(HasSubstr("'" + word + "'"))) << one.command;
      EXPECT_THAT(said, Not(HasSubstr("Did you mean"))) << one.command << word;
    }
  }
}

TEST(Completion, HasMeaningsOfCommandsAndOptions) {
  EXPECT_EQ(complete("diff --ma").out,
            "--map\ta file with a name in A and its name, or names, in B per line\n");
  EXPECT_THAT(complete("''").out,
              HasSubstr("explain\tSay what a kind of finding means, its usual causes"));
  EXPECT_THAT(complete("--v").out, HasSubstr("--version\t"));
  EXPECT_THAT(complete("doctor --").out, Not(HasSubstr("ranks-only"))) << "which is hidden";
}

TEST(Completion, OffersNothingWhereFilesAreMeant) {
  for (const char* words : {"pack ''", "report runs", "watch --out ''", "watch -- ''", "diff a ''",
                            "compare opentslm-49-drift ''", "nosuch ''", "help diff ''"}) {
    EXPECT_EQ(complete(words).out, "") << words;
    EXPECT_EQ(complete(words).status, 0) << words;
  }
}

TEST(Completion, AsksTheCatalogueForItsCommands) {
  EXPECT_EQ(FakeCatalogue("echo $*").lockstep("--complete run lo").out, "--complete run lo\n");
  EXPECT_EQ(FakeCatalogue("echo $*").lockstep("--man show").out, "--man show\n");
}

TEST(Manual, HasNoPageOfAnUnknownCommand) {
  const Outcome outcome = run_shell(kLockstep + " --man rnu");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, HasSubstr("Did you mean 'run'?"));
}

TEST(CompletionScript, IsOneForBashZshOrFish) {
  const Outcome outcome = run_shell(kLockstep + " --completion ksh");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, HasSubstr("--completion"));
  EXPECT_THAT(outcome.err, HasSubstr("'ksh'"));
  EXPECT_THAT(completion_script("bash", "my-bugs"),
              HasSubstr("\ncomplete -o default -F _lockstep my-bugs\n"));
}

}  // namespace
}  // namespace lockstep
