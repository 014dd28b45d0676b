// `lockstep runs`: what it lists, what it removes, and what it never removes.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "harness/record/environment.h"
#include "harness/record/folder_lock.h"
#include "harness/record/run_folder.h"
#include "reports/record/json.h"
#include "tests/cli/fake_catalogue.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A job of two ranks. Judged: in lockstep.
RunRecord record_started(const std::string& utc, bool is_judged = true) {
  RunRecord run;
  run.environment.started_utc = utc;
  run.environment.host = host_name();
  JobRecord& job = run.jobs.emplace_back();
  job.id = "3f9c2a";
  job.folder = "job";
  job.title = "torchrun train.py";
  run.planned = counts_of(run);
  if (!is_judged) return run;
  job.world_size = job.processes = 2;
  job.exits = {{.rank = 0}, {.rank = 1}};
  job.symptom.kind = SymptomKind::right;
  job.symptom.text = "right";
  job.results.emplace_back().verdict = Verdict::holds;
  return run;
}

/// A folder `runs`.
class Runs : public testing::Test {
 protected:
  fs::path runs() const { return place_.path() / "runs"; }
  fs::path folder(const std::string& name) const { return runs() / name; }

  void add(const std::string& name, RunRecord run) const {
    fs::create_directories(folder(name) / "job");
    run.planned = counts_of(run);
    save_record(folder(name), run);
    write_text(folder(name) / "job/rank-0.csv", "rows");
  }
  /// Three runs, of which `latest` is the newest.
  void add_three() const {
    add("old", record_started("2026-01-01T00:00:00Z"));
    add("newest", record_started("2026-03-01T00:00:00Z"));
    add("middle", record_started("2026-02-01T00:00:00Z"));
    fs::create_symlink("newest", folder("latest"));
  }
  bool is_there(const std::string& name) const { return fs::exists(folder(name)); }

  Outcome lockstep(const std::string& arguments) const {
    fs::create_directories(runs());
    return run_shell(fmt::format("cd {} && LOCKSTEP_CATALOGUE=/nowhere {} {}",
                                 place_.path().string(), kLockstep, arguments));
  }

  TemporaryFolder place_;
};

TEST_F(Runs, AreListedTheNewestFirst) {
  add_three();
  const Outcome listed = lockstep("runs");
  EXPECT_EQ(listed.status, 0) << listed.err;
  const std::vector<std::string> lines = lines_of(listed.out);
  ASSERT_EQ(lines.size(), 4U) << listed.out;
  EXPECT_THAT(lines[0], HasSubstr("name   | start (UTC)         | verdict     |"));
  EXPECT_THAT(lines[1], AllOf(HasSubstr("newest | 2026-03-01 00:00:00 | in lockstep |"),
                              HasSubstr(" KiB | torchrun train.py, 2 ranks")));
  EXPECT_THAT(lines[2], HasSubstr("middle"));
  EXPECT_THAT(lines[3], HasSubstr("old"));
}

TEST_F(Runs, AreNone) { EXPECT_EQ(lockstep("runs").out, "There is no run in runs.\n"); }

TEST_F(Runs, OfSeveralMachinesAreOne) {
  RunRecord run = record_started("2026-01-01T00:00:00Z");
  run.jobs[0].node = "a";
  add("shared/a", run);
  run.jobs[0].node = "b";
  add("shared/b", run);
  EXPECT_THAT(lockstep("runs").out, AllOf(HasSubstr("shared | 2026-01-01 00:00:00 | not judged |"),
                                          HasSubstr("torchrun train.py, 2 ranks, on 2 machines")));
  EXPECT_EQ(lockstep("runs --keep 0").status, 0);
  EXPECT_FALSE(is_there("shared"));
}

TEST_F(Runs, OfScenariosAreCounted) {
  RunRecord run = literal_run();
  run.jobs.clear();
  std::erase_if(run.cells, [](const auto& cell) { return cell.cell.role == Role::reference; });
  for (CellRecord& cell : run.cells) {
    cell.reference_folder.clear();
    cell.processes = 0;
    cell.exits.clear();
  }
  add("cells", run);
  const Outcome listed = lockstep("runs");
  EXPECT_THAT(listed.out, testing::ContainsRegex("FAILED .* [0-9]+ variants of "));
  RunRecord one = run;
  one.cells.resize(1);
  add("one", one);
  EXPECT_THAT(lockstep("runs").out, HasSubstr("| 1 variant of loss-on-unwrapped-module"));
}

TEST_F(Runs, ThatAreBrokenAreListedAsSuch) {
  add("sound", record_started("2026-01-01T00:00:00Z"));
  fs::create_directories(folder("empty"));
  fs::create_directories(folder("garbage"));
  write_text(folder("garbage") / "record.json", "{");
  write_text(folder("file"), "");
  const Outcome listed = lockstep("runs");
  EXPECT_EQ(listed.status, 0);
  EXPECT_THAT(listed.out, AllOf(HasSubstr("Cannot read runs/empty: it holds no record.json."),
                                testing::ContainsRegex("garbage .*BROKEN .*garbage/record.json")));
  EXPECT_EQ(lines_of(listed.out).size(), 4U) << listed.out;
  EXPECT_THAT(lines_of(listed.out)[1], HasSubstr("sound"));
}

TEST_F(Runs, AreOneDocumentForAScript) {
  add_three();
  fs::create_directories(folder("empty"));
  const auto json = nlohmann::json::parse(lockstep("runs runs --format json").out);
  EXPECT_EQ(json["schema"], "lockstep.runs");
  ASSERT_EQ(json["runs"].size(), 4U);
  EXPECT_EQ(json["runs"][0]["folder"], "runs/newest");
  EXPECT_EQ(json["runs"][0]["title"], "torchrun train.py, 2 ranks");
  EXPECT_EQ(json["runs"][0]["verdict"], "in lockstep");
  EXPECT_EQ(json["runs"][0]["fault"], "");
  EXPECT_GT(json["runs"][0]["bytes"], 0);
  EXPECT_THAT(json["runs"][3]["fault"], HasSubstr("it holds no record.json"));
}

TEST_F(Runs, AreNotThoseInTheFolderOfARun) {
  add_three();
  const Outcome listed = lockstep("runs runs/old");
  EXPECT_EQ(listed.status, 64);
  EXPECT_EQ(
      listed.err,
      "lockstep: Cannot read runs/old: it is the folder of a run itself. Name the folder that "
      "holds the folders of runs.\n");
}

TEST_F(Runs, AreRemovedButForTheNewest) {
  add_three();
  const Outcome pruned = lockstep("runs --keep 2");
  EXPECT_EQ(pruned.status, 0) << pruned.err;
  EXPECT_THAT(pruned.out, testing::MatchesRegex("removed runs/old: [0-9.]+ KiB\n1 run, [0-9.]+ "
                                                "KiB freed\n"));
  EXPECT_FALSE(is_there("old"));
  EXPECT_TRUE(is_there("middle") && is_there("newest"));
}

TEST_F(Runs, AreRemovedIfTheyStartedLongAgo) {
  add_three();
  add("today", record_started(utc_now()));
  EXPECT_EQ(lockstep("runs --older-than 1").status, 0);
  EXPECT_TRUE(is_there("today"));
  EXPECT_FALSE(is_there("old") || is_there("middle") || is_there("newest"));
}

TEST_F(Runs, AreRemovedIfBothConditionsHold) {
  add_three();
  EXPECT_EQ(lockstep("runs --older-than 1 --keep 2").status, 0);
  EXPECT_TRUE(is_there("newest") && is_there("middle"));
  EXPECT_FALSE(is_there("old"));
  add("today", record_started(utc_now()));
  EXPECT_EQ(lockstep("runs --older-than 1 --keep 0").status, 0);
  EXPECT_TRUE(is_there("today"));
}

TEST_F(Runs, WhoseStartIsUnknownAreNotOld) {
  add("odd", record_started("yesterday"));
  EXPECT_EQ(lockstep("runs --older-than 0").out, "0 runs, 0 B freed\n");
  EXPECT_TRUE(is_there("odd"));
}

TEST_F(Runs, AreOnlyNamedInARehearsal) {
  add_three();
  const Outcome rehearsal = lockstep("runs --keep 1 --dry-run");
  EXPECT_THAT(rehearsal.out,
              testing::MatchesRegex("would remove runs/middle: [0-9.]+ KiB\nwould remove "
                                    "runs/old: [0-9.]+ KiB\n2 runs, [0-9.]+ KiB would be freed\n"));
  EXPECT_TRUE(is_there("old") && is_there("middle"));
}

TEST_F(Runs, LeaveNoLinkToARunThatIsGone) {
  add_three();
  fs::remove(folder("latest"));
  fs::create_symlink("old", folder("latest"));
  EXPECT_THAT(lockstep("runs --keep 2").out, HasSubstr("runs/latest points to newest now\n"));
  EXPECT_EQ(fs::read_symlink(folder("latest")), "newest");
  EXPECT_THAT(lockstep("runs --keep 0").out,
              HasSubstr("removed runs/latest, which pointed to no run\n"));
  EXPECT_FALSE(fs::is_symlink(folder("latest")));
}

TEST_F(Runs, ThatAreNoneOfLockstepsAreNeverRemoved) {
  fs::create_directories(folder("mine"));
  fs::create_directories(folder("broken"));
  write_text(folder("broken") / "record.json", "{");
  fs::create_directories(place_.path() / "elsewhere");
  save_record(place_.path() / "elsewhere", record_started("2026-01-01T00:00:00Z"));
  fs::create_symlink("../elsewhere", folder("link"));
  write_text(folder("file"), "");
  EXPECT_EQ(lockstep("runs --keep 0").out, "0 runs, 0 B freed\n");
  EXPECT_TRUE(is_there("mine") && is_there("broken") && is_there("link") && is_there("file"));
  EXPECT_TRUE(fs::exists(place_.path() / "elsewhere/record.json"));
}

/// What a link in the folder of a run points to is another's.
TEST_F(Runs, AreRemovedWithoutWhatTheirLinksPointTo) {
  add_three();
  write_text(place_.path() / "mine", "mine");
  fs::create_symlink(place_.path() / "mine", folder("old") / "link");
  EXPECT_EQ(lockstep("runs --keep 0").status, 0);
  EXPECT_EQ(text_of(place_.path() / "mine"), "mine");
}

TEST_F(Runs, ThatGoOnAreKept) {
  add("going", record_started("2026-01-01T00:00:00Z", false));
  const FolderLock lock(folder("going"));
  EXPECT_THAT(lockstep("runs").out, HasSubstr("| running |"));
  EXPECT_EQ(lockstep("runs --keep 0").out, "kept runs/going: it still runs\n0 runs, 0 B freed\n");
  EXPECT_TRUE(is_there("going"));
}

TEST_F(Runs, WhoseWatchWasKilledAreRemoved) {
  add("killed", record_started("2026-01-01T00:00:00Z", false));
  EXPECT_THAT(lockstep("runs").out, HasSubstr("| not judged |"));
  EXPECT_EQ(lockstep("runs --keep 0").status, 0);
  EXPECT_FALSE(is_there("killed"));
}

TEST_F(Runs, ThatMayGoOnElsewhereAreKept) {
  RunRecord run = record_started("2026-01-01T00:00:00Z", false);
  run.environment.host = "node7";
  add("elsewhere", run);
  EXPECT_THAT(lockstep("runs --keep 0").out,
              HasSubstr("kept runs/elsewhere: it may still run on node7\n"));
  EXPECT_TRUE(is_there("elsewhere"));
}

TEST_F(Runs, ThatCannotBeRemovedAreStillListed) {
  add_three();
  for (const fs::path& open : {place_.path(), runs(), folder("old")}) {
    fs::permissions(open, fs::perms(0777));
  }
  for (const char* run : {"old", "middle", "newest"}) {  // which the other user may read
    fs::permissions(folder(run), fs::perms(0777));
    fs::permissions(folder(run) / "record.json", fs::perms(0644));
  }
  fs::permissions(folder("old") / "job", fs::perms(0555));
  const std::string other = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
  const Outcome pruned = run_shell(fmt::format(
      "{}{} runs {} --keep 2", ::geteuid() == 0 ? other : "", kLockstep, runs().string()));
  EXPECT_EQ(pruned.status, 64);
  EXPECT_THAT(pruned.err, HasSubstr("/runs/old: Permission denied."));
  EXPECT_TRUE(fs::exists(folder("old") / "record.json"));
  fs::permissions(folder("old") / "job", fs::perms(0755));
}

}  // namespace
}  // namespace lockstep
