#include "reports/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/base/usage_error.h"

namespace lockstep {
namespace {

std::string sentence_of(const Error& error) { return error.what(); }

auto count_lines(const std::string& text) { return 1 + std::count(text.begin(), text.end(), '\n'); }

TEST(UnknownName, OffersTheNearest) {
  const Error error =
      unknown_name("scenario", "loss-on-unwraped-module",
                   {"tiled-mlp-hooks", "loss-on-unwrapped-module", "device-map-from-global-rank"});
  EXPECT_EQ(sentence_of(error),
            "There is no scenario 'loss-on-unwraped-module'. Did you mean "
            "'loss-on-unwrapped-module'?");
  EXPECT_EQ(error.kind(), Error::Kind::usage);
}

TEST(UnknownName, ListsTheKnownWhenNoneIsNear) {
  EXPECT_EQ(sentence_of(unknown_name("format", "yaml", {"console", "csv", "json"})),
            "There is no format 'yaml'. Known:\n  console, csv, json.");
}

TEST(UnknownName, SaysThatNoneIsKnown) {
  EXPECT_EQ(sentence_of(unknown_name("axis", "tiles", {})),
            "There is no axis 'tiles': none is known.");
}

TEST(UnknownName, ListsTheNamesWithIt) {
  const std::vector<std::string> known = {"weights-differ", "gradients-differ", "gradient-lost"};
  EXPECT_EQ(sentence_of(unknown_name("kind of finding", "gradient", known)),
            "There is no kind of finding 'gradient'. Names with it:\n  gradients-differ, "
            "gradient-lost.");
  EXPECT_THAT(sentence_of(unknown_name("kind of finding", "di", known)),
              testing::HasSubstr("Known:\n  weights-differ, gradients-differ"));
}

TEST(UnknownName, StaysShortHoweverManyAreKnown) {
  std::vector<std::string> known;
  for (int i = 0; i < 500; ++i) known.push_back("a-scenario-of-the-catalogue-" + std::to_string(i));
  const std::string text = sentence_of(unknown_name("scenario", "zzz", known));
  EXPECT_EQ(count_lines(text), 4);
  EXPECT_LT(text.size(), 400u);
  EXPECT_NE(text.find("a-scenario-of-the-catalogue-0,"), std::string::npos);
  const std::size_t listed = std::count(text.begin(), text.end(), ',');
  EXPECT_NE(text.find("and " + std::to_string(500 - listed) + " more."), std::string::npos) << text;
}

TEST(UnknownName, ListsTheLastNameThatFits) {
  const std::vector<std::string> known(6, std::string(44, 'k'));
  const std::string text = sentence_of(unknown_name("axis", "zzz", known));
  EXPECT_EQ(std::count(text.begin(), text.end(), 'k'), 6 * 44) << text;
  EXPECT_EQ(text.find("more"), std::string::npos);
}

TEST(UnmetRequirement, SaysWhyAndWhatHelps) {
  EXPECT_EQ(unmet_requirement("srun", "not on PATH", "use a machine of a cluster"),
            "--require srun is not met: not on PATH. Remedy: use a machine of a cluster.");
}

TEST(NothingRan, IsAnUnmetRequirement) {
  EXPECT_EQ(nothing_ran().kind(), Error::Kind::unmet);
  EXPECT_NE(sentence_of(nothing_ran()).find("a failure with --require"), std::string::npos);
}

TEST(BadValue, SaysWhatToGive) {
  const Error error = bad_value("--ranks", "65", "a whole number from 1 to 64");
  EXPECT_EQ(sentence_of(error), "--ranks cannot be '65': give a whole number from 1 to 64.");
  EXPECT_EQ(error.kind(), Error::Kind::usage);
}

TEST(Malformed, NamesThePlaceAsFarAsItIsKnown) {
  EXPECT_EQ(sentence_of(malformed("a.csv", 3, 7, "a number", "x")),
            "a.csv:3:7: expected a number, found 'x'.");
  EXPECT_EQ(sentence_of(malformed("a.csv", 3, 0, "a number", "x")),
            "a.csv:3: expected a number, found 'x'.");
  EXPECT_EQ(sentence_of(malformed("a.csv", 0, 0, "a number", "")),
            "a.csv: expected a number, found nothing.");
}

TEST(Malformed, StaysOneLineWhateverWasFound) {
  const std::string text =
      sentence_of(malformed("a.csv", 1, 1, "a word", "tab\tnewline\n\x1b[31m"));
  EXPECT_EQ(text, "a.csv:1:1: expected a word, found 'tab\\x09newline\\x0a\\x1b[31m'.");
  const std::string cut = sentence_of(malformed("a.csv", 1, 1, "a word", std::string(9999, 'y')));
  EXPECT_LT(cut.size(), 150u);
  EXPECT_NE(cut.find("yyy...'"), std::string::npos);
}

TEST(Malformed, DoesNotCutACharacterInHalf) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xc3\xa9";
  for (const std::string& start : {std::string(), std::string("a")}) {
    const std::string shown = sentence_of(malformed("f", 0, 0, "x", start + text));
    EXPECT_NE(shown.find("\xc3\xa9...'"), std::string::npos) << shown;
  }
}

TEST(OtherVersion, SaysWhichWasFoundWhichIsReadAndWhatToDo) {
  const Error error = other_version("run/record.json", "a record", "1.4", "2.0");
  EXPECT_EQ(sentence_of(error),
            "run/record.json is a record of version '1.4', but this program reads version 2.0: use "
            "the Lockstep that wrote it, or record the run again.");
  EXPECT_EQ(error.kind(), Error::Kind::usage);
  EXPECT_EQ(sentence_of(other_version("a", "a journal", "", "2")),
            "a is a journal without a version, but this program reads version 2: use the Lockstep "
            "that wrote it, or record the run again.");
}

TEST(OtherVersion, StaysOneShortLineWhateverWasFound) {
  const std::string text = sentence_of(other_version("a", "a", std::string(9999, '\n'), "2"));
  EXPECT_LT(text.size(), 500u);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(UnreadableAndUnwritable, SayWhyAndWhatToDo) {
  const Error unread = unreadable("runs/x", "No such file or directory");
  EXPECT_EQ(sentence_of(unread),
            "Cannot read runs/x: No such file or directory. Give a path that can be read.");
  EXPECT_EQ(unread.kind(), Error::Kind::usage);
  const Error unwritten = unwritable("out", "No space left on device");
  EXPECT_EQ(sentence_of(unwritten),
            "Cannot write out: No space left on device. Give a place that can be written.");
  EXPECT_EQ(unwritten.kind(), Error::Kind::usage);
}

TEST(UnreadableAndUnwritable, GiveTheOneAdviceThatHelps) {
  EXPECT_EQ(sentence_of(unreadable("x", "it is a file", "Name a folder")),
            "Cannot read x: it is a file. Name a folder.");
  EXPECT_EQ(sentence_of(not_empty("out")),
            "Cannot write out: it is not empty, and results are never overwritten. Name a new "
            "folder.");
  EXPECT_EQ(sentence_of(rank_observed_before(3)),
            "Another process of this job was rank 3, and only the first one is observed. A "
            "restarted rank is not; independent trainings need a watch each.");
  EXPECT_EQ(sentence_of(unwritable_output("No space left on device")),
            "Cannot write to standard output: No space left on device.");
}

TEST(UnreadableAndUnwritable, QuoteAnEmptyPath) {
  EXPECT_EQ(sentence_of(unreadable("", "it is empty", "Name one")),
            "Cannot read '': it is empty. Name one.");
}

TEST(UnknownOption, OffersTheNearestElseTheHelp) {
  EXPECT_EQ(sentence_of(unknown_option("lockstep run", "--rank", {"--steps", "--ranks"})),
            "'lockstep run' has no option '--rank'. Did you mean '--ranks'?");
  EXPECT_EQ(sentence_of(unknown_option("lockstep run", "--zzz", {"--steps", "--ranks"})),
            "'lockstep run' has no option '--zzz'. See 'lockstep run --help'.");
}

TEST(UnexpectedWords, AreNamedInTheirOrder) {
  EXPECT_EQ(sentence_of(unexpected_words("lockstep show", {"b", "a\n"}, "Usage: lockstep show ID")),
            "'lockstep show' does not expect 'b', 'a\\x0a'. Usage: lockstep show ID");
}

TEST(LauncherErrors, NameTheLauncherAndTheNumbers) {
  EXPECT_EQ(sentence_of(launcher_world_differs("mpirun -n {ranks}", 1, 4)),
            "The launcher 'mpirun -n {ranks}' started worlds of 1 rank instead of one world of 4. "
            "It may belong to another MPI, or {ranks} may be missing from the command.");
  EXPECT_EQ(sentence_of(launcher_started_nothing("srun -n {ranks}", "exited with status 1",
                                                 "-----\nno node\n\n  ask less\n-----\n")),
            "The launcher 'srun -n {ranks}' exited with status 1, and no rank reported anything. "
            "Its last output:\n  no node\n    ask less");
  EXPECT_EQ(sentence_of(launcher_started_nothing("true", "finished", "")),
            "The launcher 'true' finished, and no rank reported anything. It printed nothing.");
  EXPECT_EQ(
      sentence_of(not_for_one_rank("srun", 1, 2, "--out DIR")),
      "srun started this process as rank 1 of 2, so it can only be one rank of one cell. Give "
      "--out DIR; or start lockstep without a launcher; or use --launcher none, and lockstep "
      "starts its own ranks here.");
  EXPECT_EQ(
      sentence_of(nowhere_to_meet("0.0.0.0", 80, "Permission denied")),
      "The ranks cannot meet at 0.0.0.0:80: Permission denied. Set MASTER_PORT to a free port.");
}

TEST(InternalError, SaysThatItIsOurs) {
  const Error error = internal_error("no judge for a predicate");
  EXPECT_EQ(sentence_of(error),
            "Internal error: no judge for a predicate. This is a defect of Lockstep; please "
            "report it.");
  EXPECT_EQ(error.kind(), Error::Kind::internal);
  EXPECT_EQ(static_cast<int>(error.kind()), 70);
}

TEST(Mpi, SaysWhoHasToStartItsRanks) {
  EXPECT_EQ(sentence_of(no_mpi_launcher()),
            "--backend mpi needs ranks that MPI's own launcher started, and these were not. Start "
            "them with mpirun of Open MPI or of MPICH, or use --backend gloo.");
  EXPECT_EQ(
      sentence_of(other_mpi("MPICH", "mpirun.mpich", 1, 3)),
      "The launcher started 3 ranks, but the loaded module of MPICH sees a world of 1: another "
      "MPI's launcher started them. Start them with mpirun.mpich, or unset LOCKSTEP_MPI if it "
      "names the wrong MPI.");
}

TEST(Mpi, SaysWhichModulesThereAre) {
  EXPECT_EQ(sentence_of(no_module_for("MPICH", {"Open MPI"})),
            "MPICH started these ranks, but this Lockstep was built with Open MPI only. Use a "
            "launcher that belongs to it, or install the development package of MPICH and build "
            "Lockstep again.");
  EXPECT_EQ(backend_not_built("nccl", "use gloo"),
            "The backend nccl is not in this build. Remedy: use gloo.");
}

TEST(Unreadable, QuotesWhatEndsOrMovesALine) {
  const std::string path("run/a\0b\n::error::\x1b", 18);
  EXPECT_EQ(
      sentence_of(unreadable(path, "it is a pipe")),
      "Cannot read run/a\\x00b\\x0a::error::\\x1b: it is a pipe. Give a path that can be read.");
  EXPECT_EQ(sentence_of(malformed(path, 2, 0, "JSON", "")),
            "run/a\\x00b\\x0a::error::\\x1b:2: expected JSON, found nothing.");
}

}  // namespace
}  // namespace lockstep
