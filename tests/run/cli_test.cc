// The program from its users' point of view: arguments in, status and text out.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>
#include <set>

#include "tests/command.h"
#include "tests/programs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

const std::string kPublished = LOCKSTEP_SOURCE_DIR "/reference/published/";

Outcome lockstep(const std::string& arguments) { return run_shell(kLockstep + " " + arguments); }

/// One run of loss-on-unwrapped-module with 2 ranks, shared by the tests that only read it.
class OpenTslm49 : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    outcome_ = new Outcome(lockstep(
        "run loss-on-unwrapped-module --ranks 2 --format csv,json --out " + run_folder().string()));
  }
  static void TearDownTestSuite() {
    delete outcome_;
    delete folder_;
  }
  static fs::path run_folder() { return folder_->path() / "run"; }
  static const Outcome& outcome() { return *outcome_; }

 private:
  static inline TemporaryFolder* folder_ = nullptr;
  static inline Outcome* outcome_ = nullptr;
};

TEST_F(OpenTslm49, PrintsBothTablesAsPublished) {
  ASSERT_EQ(outcome().status, 0) << outcome().out << outcome().err;
  EXPECT_THAT(outcome().out, HasSubstr(R"(
step |  BUGGY g_r0        g_r1  synced |  FIXED g_r0        g_r1  synced
   1 |     0.04043     0.19431   False |     0.11737     0.11737    True
   2 |    -0.13683    -0.05685   False |    -0.09659    -0.09659    True
   3 |     0.05426    -0.25685   False |    -0.10196    -0.10196    True
   4 |     0.02004    -0.01721   False |    -0.00963    -0.00963    True
   5 |    -0.21217    -0.45084   False |    -0.34623    -0.34623    True
)"));
  EXPECT_THAT(outcome().out, HasSubstr(R"(
step |        BUGGY |        FIXED
   1 |     0.050678 |     0.000000
   2 |     0.073750 |     0.000000
   3 |     0.093219 |     0.000000
   4 |     0.118547 |     0.000000
   5 |     0.132573 |     0.000000
)"));
}

TEST_F(OpenTslm49, MeetsBothPublishedTables) {
  for (const char* table : {"opentslm-49-gradients.csv", "opentslm-49-drift.csv"}) {
    const Outcome compared =
        lockstep("compare " + kPublished + table + " " + run_folder().string());
    EXPECT_EQ(compared.status, 0) << compared.out << compared.err;
  }
}

TEST_F(OpenTslm49, ReportOfSeveralFoldersShowsEach) {
  const std::string twice = run_folder().string() + " " + run_folder().string();
  const Outcome report = lockstep("report " + twice);
  EXPECT_EQ(report.status, 0) << report.err;
  const std::string verdict = "Everything is as expected";
  const auto first = report.out.find(verdict);
  EXPECT_THAT(report.out, HasSubstr(run_folder().string() + "\n"));
  EXPECT_NE(report.out.find(verdict, first + 1), std::string::npos);
  const Outcome summary = lockstep("report " + twice + " --format summary");
  EXPECT_EQ(summary.status, 0) << summary.err;
  EXPECT_THAT(summary.out, HasSubstr("\n  \"verdict\": \"holds\",\n"));
}

TEST_F(OpenTslm49, DoesNotMeetATableWithOneAlteredDigit) {
  const TemporaryFolder folder;
  std::string table = text_of(kPublished + "opentslm-49-gradients.csv");
  const auto digit = table.find("0.04043");
  ASSERT_NE(digit, std::string::npos);
  table.replace(digit, 7, "0.04044");
  write_text(folder.path() / "altered.csv", table);
  const Outcome compared = lockstep(
      fmt::format("compare {}/altered.csv {}", folder.path().string(), run_folder().string()));
  EXPECT_EQ(compared.status, 1);
  EXPECT_THAT(compared.out, HasSubstr("published 0.04044, measured 0.04043"));
}

TEST_F(OpenTslm49, ComparesWithATableThatATerminalWouldObey) {
  const TemporaryFolder folder;
  std::string table = text_of(kPublished + "opentslm-49-gradients.csv");
  const std::string scenario = "loss-on-unwrapped-module,";
  table.replace(table.find(scenario), scenario.size(), "\x1b[2J\xe2\x80\xae##[error]x,");
  write_text(folder.path() / "hostile.csv", table);
  const Outcome compared = lockstep(
      fmt::format("compare {}/hostile.csv {}", folder.path().string(), run_folder().string()));
  EXPECT_EQ(compared.status, 1);
  EXPECT_THAT(compared.out, HasSubstr(": \\x1b[2J\\u202e\\x23#[error]x/"));
}

TEST_F(OpenTslm49, IsReportedAgainFromItsFiles) {
  const Outcome again = lockstep("report " + run_folder().string());
  EXPECT_EQ(again.status, 0);
  const std::string first = std::regex_replace(outcome().out, std::regex("Report: [^\n]*\n"), "");
  EXPECT_EQ(first.rfind(again.out, 0), 0U) << "run adds its last line, and names the reports";
  const Outcome json = lockstep("report --format json " + run_folder().string());
  EXPECT_EQ(json.out, text_of(run_folder() / "record.json"));
  EXPECT_EQ(json.out, text_of(run_folder() / "report.json"));
}

TEST_F(OpenTslm49, LeavesTheFilesOfTheFormatDocument) {
  for (const char* file :
       {"record.json", "report.csv", "report.json", "loss-on-unwrapped-module/bypass/w2/rank-0.csv",
        "loss-on-unwrapped-module/bypass/w2/rank-1.step-5.safetensors",
        "loss-on-unwrapped-module/bypass/w2/collectives-1.bin",
        "loss-on-unwrapped-module/bypass/w2/manifest.csv",
        "loss-on-unwrapped-module/bypass/w2/rank-1.log",
        "loss-on-unwrapped-module/reference/w2/rank-0.csv"}) {
    EXPECT_TRUE(fs::exists(run_folder() / file)) << file;
  }
}

/// A separate suite, because it may skip itself.
class SchemaOfOpenTslm49 : public OpenTslm49 {};

TEST_F(SchemaOfOpenTslm49, IsMetByTheRecord) {
  const Outcome validated =
      run_shell("/usr/bin/python3 " LOCKSTEP_SOURCE_DIR
                "/tests/reports/formats/validate_schema.py " LOCKSTEP_SOURCE_DIR
                "/reports/record/record.schema.json " +
                (run_folder() / "record.json").string());
  if (validated.status == 77) GTEST_SKIP() << validated.out << validated.err;
  EXPECT_EQ(validated.status, 0) << validated.out << validated.err;
}

/// Tolerances are measured, and processors round in other places.
std::string without_tolerances(const std::string& text) {
  static const std::regex tolerance("tolerance [0-9][0-9.e-]*");
  return std::regex_replace(text, tolerance, "tolerance _");
}

TEST_F(OpenTslm49, IsTheReportOfThePageOfCommands) {
  const std::string page = text_of(LOCKSTEP_SOURCE_DIR "/docs/commands.md");
  const auto begin = page.find("<!-- report -->\n") + 16;
  const std::string shown = page.substr(begin, page.find("<!-- /report -->") - begin);
  EXPECT_GT(lines_of(shown).size(), 20U);
  for (const std::string& line : lines_of(shown)) {
    if (line.size() <= 4 || line.find("[...]") != std::string::npos) continue;
    EXPECT_THAT(without_tolerances(outcome().out),
                HasSubstr(without_tolerances(line.substr(4) + "\n")));
  }
}

TEST_F(OpenTslm49, SaysThatTheGradientsWereNeverSynchronisedAndWhere) {
  const std::string text = lockstep("report -vv " + run_folder().string()).out;
  EXPECT_THAT(unwrapped(text), HasSubstr("it is the rank's own gradient: never synchronised"));
  EXPECT_THAT(text, HasSubstr("scenarios/synchronisation/loss_on_unwrapped_module.cc:"));
}

/// A copy of the run that a test may damage.
class DamagedRun : public OpenTslm49 {
 protected:
  DamagedRun() { fs::copy(run_folder(), copy(), fs::copy_options::recursive); }
  fs::path copy() const { return folder_.path() / "copy"; }
  fs::path journal() const { return copy() / "loss-on-unwrapped-module/bypass/w2/rank-1.csv"; }
  Outcome report() const { return lockstep("report " + copy().string()); }

 private:
  TemporaryFolder folder_;
};

TEST_F(DamagedRun, WithATornLastRowIsReadPastWithANote) {
  std::string text = text_of(journal());
  text.resize(text.size() - 5);
  write_text(journal(), text);
  const Outcome reported = report();
  EXPECT_THAT(reported.out, HasSubstr("rank 1: the last row of its journal was torn"));
  EXPECT_NE(reported.status, 64);
}

TEST_F(DamagedRun, WithAMalformedJournalIsRefusedWithItsPlace) {
  std::string text = text_of(journal());
  text.insert(text.find('\n') + 1, "x");
  write_text(journal(), text);
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("rank-1.csv:2:"));
}

TEST_F(DamagedRun, WithAChangedRowFails) {
  std::string text = text_of(journal());
  const std::size_t row = text.rfind("\n5,0,");
  const std::size_t cells = text.find(',', text.find(',', row + 5) + 1);  // after the digest
  text.insert(text.find(',', cells + 1) - 1, "1");                        // changes the norm or the
                                                                          // minimum
  write_text(journal(), text);
  const Outcome reported = report();
  EXPECT_NE(reported.status, 0);
  EXPECT_THAT(unwrapped(reported.out) + reported.err, HasSubstr("rank-1"));
}

TEST_F(DamagedRun, WithoutIndicesIsReadByItsRows) {
  const auto full_report = [](const std::string& folder, const char* options = "") {
    const Outcome reported = lockstep(fmt::format("report -vv {} {}", options, folder));
    EXPECT_EQ(reported.status, 0) << reported.err;
    return reported.out.substr(0, reported.out.find("\nFiles: "));
  };
  const std::string before = full_report(run_folder().string());
  std::vector<fs::path> indices;
  for (const auto& entry : fs::recursive_directory_iterator(copy())) {
    if (entry.path().extension() == ".index") indices.push_back(entry.path());
  }
  ASSERT_FALSE(indices.empty());
  for (const fs::path& index : indices) fs::remove(index);
  EXPECT_EQ(full_report(copy().string()), before);
  EXPECT_EQ(full_report(run_folder().string(), "--full"), before);
}

TEST_F(DamagedRun, WithAnIndexOfAnotherCellFails) {
  const fs::path index = copy() / "loss-on-unwrapped-module/bypass/w2/rank-1.index";
  fs::copy_file(copy() / "loss-on-unwrapped-module/reference/w2/rank-1.index", index,
                fs::copy_options::overwrite_existing);
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 1);
  EXPECT_THAT(unwrapped(reported.out), HasSubstr("expected an index of rank 1 of"));
}

TEST_F(DamagedRun, WithoutATensorTableIsRefused) {
  fs::remove(copy() / "loss-on-unwrapped-module/bypass/w2/rank-1.tensors.csv");
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("rank-1.tensors.csv"));
}

TEST_F(DamagedRun, WithAChangeThatNoReaderCanSeeFails) {
  const fs::path folder = copy() / "loss-on-unwrapped-module/bypass/w2";
  const fs::path status = folder / "rank-0.status.json";
  const std::string before = text_of(status);
  write_text(status, before + " ");
  EXPECT_EQ(report().status, 1);
  EXPECT_THAT(unwrapped(report().out), HasSubstr("rank-0.status.json was changed"));
  write_text(status, before);
  EXPECT_EQ(report().status, 0);
  fs::remove(folder / "collectives-0.bin");
  fs::remove(folder / "collectives-1.bin");
  EXPECT_EQ(report().status, 1);
  EXPECT_THAT(unwrapped(report().out), HasSubstr("collectives-0.bin is missing, and 1 more"));
}

TEST_F(DamagedRun, WithoutItsManifestFails) {
  fs::remove(copy() / "loss-on-unwrapped-module/bypass/w2/manifest.csv");
  EXPECT_EQ(report().status, 1);
  EXPECT_THAT(unwrapped(report().out), HasSubstr("manifest.csv is missing"));
}

TEST_F(DamagedRun, WithAMissingJournalIsRefused) {
  fs::remove(journal());
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("rank-1.csv"));
}

TEST_F(DamagedRun, WithAMalformedRecordIsRefused) {
  write_text(copy() / "record.json", "{\"schema\": \"lockstep.record\"");
  EXPECT_EQ(report().status, 64);
  write_text(copy() / "record.json", "");
  EXPECT_EQ(report().status, 64);
}

TEST(EndedRun, MissesNoSnapshotOfTheStepInWhichRanksWereEnded) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_shell(std::string(LOCKSTEP_PROGRAM) +
                " run loss-on-unwrapped-module/through-wrapper --steps 1000000 --timeout 1 --out " +
                (folder.path() / "run").string());
  EXPECT_EQ(outcome.status, 2) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("snapshots of")));
}

TEST_F(DamagedRun, WithoutSnapshotsSaysSo) {
  fs::remove(copy() / "loss-on-unwrapped-module/through-wrapper/w2/rank-1.step-3.safetensors");
  const Outcome reported = report();
  EXPECT_THAT(reported.out, HasSubstr("rank 1: snapshots of step 3 are missing"));
}

TEST_F(DamagedRun, WithAFlippedBitInASnapshotIsRefused) {
  const auto file =
      copy() / "loss-on-unwrapped-module/through-wrapper/w2/rank-0.step-3.safetensors";
  std::string text = text_of(file);
  text.back() = static_cast<char>(text.back() ^ 1);
  write_text(file, text);
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("rank-0.step-3.safetensors"));
}

TEST_F(DamagedRun, WithTheFilesOfAnotherRankIsRefused) {
  fs::copy_file(copy() / "loss-on-unwrapped-module/bypass/w2/rank-0.csv", journal(),
                fs::copy_options::overwrite_existing);
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(
      reported.err,
      HasSubstr("rank-1.csv: expected a file of rank 1 of loss-on-unwrapped-module/bypass/w2-"
                "optimizer=sgd with seed 0 and 5 steps, found 'rank 0 of "));
}

TEST_F(DamagedRun, WithTheFilesOfAnotherCellIsRefused) {
  const fs::path cells = copy() / "loss-on-unwrapped-module";
  fs::remove_all(cells / "bypass");
  fs::copy(cells / "through-wrapper", cells / "bypass", fs::copy_options::recursive);
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err,
              HasSubstr("found 'rank 0 of loss-on-unwrapped-module/through-wrapper/"));
}

TEST_F(DamagedRun, WithAPerturbedReferenceAsReferenceIsRefused) {
  const fs::path reference = copy() / "loss-on-unwrapped-module/reference/w2";
  for (const auto& entry : fs::directory_iterator(reference)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with("rank-1.")) continue;
    name[5] = '0';
    fs::copy_file(entry, reference / name, fs::copy_options::overwrite_existing);
  }
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("found 'perturbed reference 1 of "));
}

/// The record of a run that a test may modify.
class BentRecord : public DamagedRun {
 protected:
  /// The report after `bend` has modified the record.
  template <class Bend>
  Outcome report_after(const Bend& bend) const {
    auto record = nlohmann::json::parse(text_of(copy() / "record.json"));
    bend(record);
    write_text(copy() / "record.json", record.dump());
    return report();
  }
};

TEST_F(BentRecord, WithoutACellIsRefused) {
  const Outcome reported = report_after([](auto& record) { record["cells"].erase(0); });
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("that were planned, found"));
}

TEST_F(BentRecord, WithoutAClaimIsRefused) {
  const Outcome reported =
      report_after([](auto& record) { record["cells"][0]["claims"].erase(0); });
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("that were planned, found"));
}

TEST_F(BentRecord, ThatIsItsOwnReferenceIsRefused) {
  const Outcome reported = report_after([](auto& record) {
    auto& cell = record["cells"][0];
    cell["reference_folder"] = cell["folder"];
  });
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("expected the folder of a reference of "));
}

TEST_F(BentRecord, OfAWorldOfAThousandMillionRanksIsRefused) {
  const Outcome reported =
      report_after([](auto& record) { record["cells"][0]["cell"]["world_size"] = 1000000000; });
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("with a world size from 1 to 4096, found '1000000000'"));
}

TEST_F(BentRecord, WithAFolderOutsideOfTheRunIsRefused) {
  const Outcome reported =
      report_after([](auto& record) { record["cells"][0]["folder"] = "/etc"; });
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("expected a folder that lies inside that of the run"));
}

TEST_F(DamagedRun, WithANumberThatNoDoubleHoldsIsRefusedWithItsLine) {
  std::string text = text_of(copy() / "record.json");
  const auto at = text.find("\"duration_s\": ");
  text.replace(at, text.find(',', at) - at, "\"duration_s\": 1e999");
  write_text(copy() / "record.json", text);
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("expected a number that a float64 holds, found '1e999'"));
  EXPECT_THAT(reported.err, HasSubstr("record.json:"));
}

TEST_F(DamagedRun, WithAFileThatNeverEndsIsRefused) {
  const fs::path cell = copy() / "loss-on-unwrapped-module/bypass/w2";
  for (const fs::path& file : {cell / "collectives-1.bin", cell / "rank-1.step-3.safetensors",
                               journal(), copy() / "record.json"}) {
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0666), 0);
    EXPECT_EQ(report().status, 64) << file;
    fs::remove(file);
    fs::create_symlink("/dev/zero", file);
    EXPECT_EQ(report().status, 64) << file;
    fs::remove(file);
    write_text(file, "x");
    fs::resize_file(file, std::uintmax_t{20} << 30);
    EXPECT_EQ(report().status, 64) << file;
  }
}

TEST_F(DamagedRun, ThatNumbersACallBeyondItsLogIsRefused) {
  const fs::path log = copy() / "loss-on-unwrapped-module/bypass/w2/collectives-1.bin";
  std::string bytes = text_of(log);
  bytes.replace(384 * 2 + 8, 8, std::string(8, '\xff'));
  write_text(log, bytes);
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 64);
  EXPECT_THAT(reported.err, HasSubstr("found '18446744073709551615'"));
}

TEST_F(DamagedRun, WithoutAnyValuesIsNotAsExpected) {
  for (const auto& entry : fs::recursive_directory_iterator(copy())) {
    if (entry.path().extension() == ".safetensors") fs::remove(entry);
  }
  const Outcome reported = report();
  EXPECT_THAT(reported.out, HasSubstr("rank 1: snapshots of steps 1 to 5 are missing"));
  EXPECT_NE(reported.status, 0) << reported.out;
}

TEST_F(DamagedRun, ThatWasInterruptedIsUndecided) {
  auto record = nlohmann::json::parse(text_of(copy() / "record.json"));
  for (auto& cell : record.at("cells")) {
    if (cell.at("cell").at("variant") != "all-reduce-each") continue;
    cell.at("processes") = 0;
    cell.at("exits") = nlohmann::json::array();
  }
  write_text(copy() / "record.json", record.dump());
  const Outcome reported = report();
  EXPECT_EQ(reported.status, 2) << reported.out;
  EXPECT_THAT(reported.out, HasSubstr("the run was interrupted before this cell"));
}

TEST(Run, WithoutStandardStreamsStillKeepsItsFiles) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  const Outcome outcome = run_shell(kLockstep + " run loss-on-unwrapped-module --steps 1 --out " +
                                    run + " <&- >&- 2>&-");
  EXPECT_EQ(outcome.status, 0);
  const auto record = nlohmann::json::parse(text_of(run + "/record.json"));
  EXPECT_EQ(record.at("cells").at(0).at("verdict"), "as expected");
}

TEST_F(OpenTslm49, IsTheSameFromAPack) {
  const TemporaryFolder folder;
  const std::string pack = (folder.path() / "pack").string();
  ASSERT_EQ(lockstep("pack " + run_folder().string() + " --out " + pack).status, 0);
  for (const char* format : {"csv", "console --quiet"}) {
    const std::string options = fmt::format(" --format {}", format);
    EXPECT_EQ(lockstep("report " + pack + options).out,
              lockstep("report " + run_folder().string() + options).out);
  }
  EXPECT_EQ(lockstep("compare " + kPublished + "opentslm-49-drift.csv " + pack).status, 0);
  const Outcome redacted =
      lockstep("pack " + run_folder().string() + " --redact x --out " + pack + "-redacted");
  EXPECT_EQ(redacted.status, 64);
  EXPECT_THAT(redacted.err, HasSubstr("Leave out --redact, which is for watched jobs."));
}

TEST(Run, WithAnotherSeedGivesAnotherTable) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  const Outcome other = lockstep("run loss-on-unwrapped-module --seed 1 --out " + run);
  EXPECT_EQ(other.status, 0) << other.out;
  EXPECT_THAT(other.out, Not(HasSubstr("0.04043")));
  EXPECT_EQ(lockstep("compare " + kPublished + "opentslm-49-gradients.csv " + run).status, 1);
}

TEST(Run, OfOneVariantBringsItsReference) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  EXPECT_EQ(lockstep("run loss-on-unwrapped-module/through-wrapper --steps 2 --out " + run).status,
            0);
  EXPECT_TRUE(fs::exists(run + "/loss-on-unwrapped-module/reference/w2/rank-0.csv"));
  EXPECT_FALSE(fs::exists(run + "/loss-on-unwrapped-module/bypass"));
}

TEST(Run, ThatDoesNotApplyExitsWithThree) {
  const TemporaryFolder folder;
  const Outcome outcome =
      lockstep("run loss-on-unwrapped-module --ranks 1 --out " + (folder.path() / "run").string());
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.out, HasSubstr("supports world sizes 2 to 16, not 1"));
}

TEST(Run, WithoutAFolderGoesToRunsAndLatestPointsToIt) {
  const TemporaryFolder folder;
  const std::string cd = "cd " + folder.path().string() + " && ";
  const std::string run = kLockstep + " run loss-on-unwrapped-module/reference --steps 1";
  EXPECT_EQ(run_shell(cd + run + " && " + run).status, 0);
  EXPECT_TRUE(fs::is_symlink(folder.path() / "runs/latest"));
  EXPECT_TRUE(fs::exists(folder.path() / "runs/latest/record.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() / "runs"), {}), 3);
}

TEST(Run, WhereRunsLatestIsNoLinkMakesNothing) {
  for (const auto& [make, called] : {std::pair("mkdir", "folder"), std::pair("touch", "file")}) {
    const TemporaryFolder folder;
    const Outcome outcome =
        run_shell(fmt::format("cd {} && mkdir runs && {} runs/latest && {} run --ranks 5",
                              folder.path().string(), make, kLockstep));
    EXPECT_EQ(outcome.status, 64);
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("runs/latest: it is a {}, but", called)));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() / "runs"), {}), 1);
    EXPECT_FALSE(fs::is_symlink(folder.path() / "runs/latest"));
  }
}

TEST(Run, OfARankThatChangesItsDirectoryKeepsItsFiles) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_shell(fmt::format("cd {} && {} run endings/changes-directory --out run",
                            folder.path().string(), LOCKSTEP_TESTBED));
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(fs::exists(folder.path() / "run/endings/changes-directory/w2/rank-1.csv"));
}

TEST(Run, KeepsOnlyAllowedVariablesAndMasksSecrets) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  const Outcome outcome =
      run_shell("PLANTED_TOKEN=hunter2 MASTER_ADDR=tcp://me:hunter2@host OMP_NUM_THREADS=1 " +
                kLockstep + " run loss-on-unwrapped-module/reference --steps 1 --out " + run);
  EXPECT_EQ(outcome.status, 0);
  const std::string record = text_of(run + "/record.json");
  EXPECT_THAT(record, Not(HasSubstr("hunter2")));
  EXPECT_THAT(record, Not(HasSubstr("PLANTED_TOKEN")));
  EXPECT_THAT(record, HasSubstr("OMP_NUM_THREADS"));
}

TEST(Run, IntoAFullDeviceSaysSo) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_shell(kLockstep + " run loss-on-unwrapped-module/reference --steps 1 --out " +
                (folder.path() / "run").string() + " >/dev/full");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, HasSubstr("standard output"));
}

TEST(Run, IntoAPipeThatClosesKeepsItsFiles) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  run_shell(kLockstep + " run loss-on-unwrapped-module --steps 1 --out " + run + " | true");
  const auto record = nlohmann::json::parse(text_of(run + "/record.json"));
  EXPECT_FALSE(record.at("cells").at(0).at("results").empty());
}

struct BadInput {
  const char* arguments;
  const char* said;

  friend std::ostream& operator<<(std::ostream& out, const BadInput& input) {
    return out << input.arguments;
  }
};

class WrongArguments : public testing::TestWithParam<BadInput> {};

TEST_P(WrongArguments, ExitWithSixtyFourAndASentence) {
  const TemporaryFolder folder;
  const std::string cd =
      "cd " + folder.path().string() + " && touch file && mkdir full && touch full/x && ";
  const Outcome outcome = run_shell(cd + kLockstep + " " + GetParam().arguments);
  EXPECT_EQ(outcome.status, 64) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().said));
  EXPECT_LE(lines_of(outcome.err).size(), 6U);
  EXPECT_EQ(outcome.out, "");
  EXPECT_FALSE(fs::exists(folder.path() / "runs"))
      << "nothing runs before the request is understood";
}

INSTANTIATE_TEST_SUITE_P(
    Cli, WrongArguments,
    testing::Values(
        BadInput{"rnu", "'run'"},
        BadInput{"run --rnaks 2",
                 "'lockstep run' has no option '--rnaks'. Did you mean '--ranks'?"},
        BadInput{"run --rank 2", "Did you mean '--ranks'?"},
        BadInput{"list --fromat json", "Did you mean '--format'?"},
        BadInput{"show --fromat json", "'lockstep show' has no option '--fromat'."},
        BadInput{"show a b c", "'lockstep show' does not expect 'b', 'c'."},
        BadInput{"run --ranks", "--ranks needs a value: N[,N...]"},
        BadInput{"run 'los-on*'", "No scenario matches 'los-on*'."},
        BadInput{"run 'loss*/bypas'",
                 "No variant of loss* matches 'bypas'. Did you mean 'bypass'?"},
        BadInput{"list shardnig",
                 "No scenario or class matches 'shardnig'. Did you mean 'sharding'?"},
        BadInput{"list zzz", "Known:"}, BadInput{"list ''", "matches ''"},
        BadInput{"list --format yaml", "text, json, markdown"},
        BadInput{"show loss-on-unwrapped-module/bypas", "'bypass'"},
        BadInput{"show 'zzz*'", "No scenario matches 'zzz*'."},
        BadInput{"show loss-on-unwrapped-module --format yaml", "text, json"},
        BadInput{"run los-on-unwrapped-module", "'loss-on-unwrapped-module'"},
        BadInput{"run loss-on-unwrapped-module/bypas", "'bypass'"},
        BadInput{"run loss-on-unwrapped-module/", "variant"},
        BadInput{"run zzz", "There is no scenario 'zzz'. Known:"},
        BadInput{"run loss-on-unwrapped-module --set tiles=4", "axis"},
        BadInput{"run --set tiles", "axis=value"}, BadInput{"run --steps ''", "empty"},
        BadInput{"run --set a=1 --set a=2", "has two"}, BadInput{"run /", "'/'"},
        BadInput{"run --format jsn", "'json'"}, BadInput{"run --format ,", "format"},
        BadInput{"run --ranks 0", "from 1 to 64"}, BadInput{"run --ranks -1", "from 1 to 64"},
        BadInput{"run --ranks 65", "from 1 to 64"}, BadInput{"run --ranks x", "from 1 to 64"},
        BadInput{"run --ranks 2,", "from 1 to 64"}, BadInput{"run --ranks ''", "from 1 to 64"},
        BadInput{"run --timeout 0", "seconds"}, BadInput{"run --timeout -1", "seconds"},
        BadInput{"run --timeout nan", "seconds"}, BadInput{"run --steps 0", "--steps"},
        BadInput{"run --seed -1", "--seed"},
        BadInput{"run --seed 4294967296", "from 0 to 4294967295"},
        BadInput{"run --out file", "file"}, BadInput{"run --out full", "not empty"},
        BadInput{"run --out /proc/none/run", "/proc/none"},
        BadInput{"run --out file/below", "file/below"}, BadInput{"report nowhere", "nowhere"},
        BadInput{"report file", "file"}, BadInput{"report full", "record.json"},
        BadInput{"report full --format htm", "format"}, BadInput{"report", "RUN"},
        BadInput{"compare none.csv full", "none.csv"}, BadInput{"compare file full", "file"},
        BadInput{"compare full full", "both folders of runs"}, BadInput{"show", "SCENARIO"},
        BadInput{"show los-on-unwrapped-module", "'loss-on-unwrapped-module'"}));

TEST(Help, OfTheCataloguesCommandsHasTheirExamplesAndExitStatuses) {
  for (const std::string command : {"list", "show", "run"}) {
    const Outcome help = lockstep(command + " --help");
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, HasSubstr("\nExamples:\n  lockstep " + command + " "));
    EXPECT_THAT(help.out, HasSubstr("\n  LOCKSTEP_CATALOGUE\n"));
    EXPECT_THAT(help.out, HasSubstr("\nExit status:\n    0  "));
    EXPECT_EQ(help.out.find("143") != std::string::npos, command == "run");
  }
}

TEST(Help, OfACatalogueProgramSaysItsOwnName) {
  const std::string name = fs::path(kTestbed).filename().string();
  EXPECT_THAT(run_shell(kTestbed + " run --help").out, HasSubstr("Usage: " + name + " run "));
  EXPECT_THAT(run_shell(kTestbed + " run --rank 2").err,
              HasSubstr("'" + name + " run' has no option '--rank'. Did you mean '--ranks'?"));
}

TEST(Help, IntoAFullDeviceSaysSo) {
  for (const char* arguments : {"--help", "--version", "run --help"}) {
    const Outcome outcome = lockstep(std::string(arguments) + " >/dev/full");
    EXPECT_EQ(outcome.status, 64) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("standard output"));
  }
}

TEST(List, InAPipeIsAWholeLineAScenario) {
  const Outcome list = run_shell("COLUMNS=40 " + kLockstep + " list");
  EXPECT_EQ(list.status, 0);
  const std::vector<std::string> lines = lines_of(list.out);
  const auto catalogue = nlohmann::json::parse(lockstep("list --format json").out).at("scenarios");
  ASSERT_EQ(lines.size(), 1 + catalogue.size());
  EXPECT_THAT(lines[0], testing::MatchesRegex("scenario +class +ranks +devices +fault"));
  for (std::size_t i = 0; i < catalogue.size(); ++i) {
    EXPECT_TRUE(lines[i + 1].starts_with(catalogue[i].at("id").get<std::string>() + " "));
    EXPECT_TRUE(lines[i + 1].ends_with("  " + catalogue[i].at("summary").get<std::string>()));
  }
}

/// In a terminal, as `script` gives one, that has `columns`.
std::vector<std::string> lines_in_terminal(int columns, const std::string& arguments) {
  std::string typed =
      run_shell(fmt::format("env -u COLUMNS script -qec 'stty cols {}; {} {}' /dev/null", columns,
                            kLockstep, arguments))
          .out;
  std::erase(typed, '\r');
  return lines_of(typed);
}

TEST(List, InATerminalKeepsToItsWidth) {
  for (const int columns : {40, 80, 120}) {
    const std::vector<std::string> lines = lines_in_terminal(columns, "list loss");
    EXPECT_GT(lines.size(), 3U);
    for (const std::string& line : lines) EXPECT_LE(line.size(), columns) << line;
    EXPECT_THAT(lines, testing::Contains(HasSubstr("loss-on-unwrapped-module")));
  }
  EXPECT_THAT(lines_in_terminal(80, "list").back(), HasSubstr("testing")) << "the classes";
}

TEST(List, FiltersByClassPatternAndWord) {
  const auto ids = [](const std::string& filters) {
    std::vector<std::string> found;
    const auto listed = nlohmann::json::parse(lockstep("list " + filters + " --format json").out);
    for (const auto& scenario : listed.at("scenarios")) {
      found.push_back(scenario.at("class").get<std::string>() + "/" +
                      scenario.at("id").get<std::string>());
    }
    return found;
  };
  EXPECT_THAT(ids("sharding"), testing::Each(testing::StartsWith("sharding/")));
  EXPECT_THAT(ids("'loss-on*'"), testing::Each(HasSubstr("/loss-on-unwrapped-module")));
  EXPECT_GE(ids("sharding 'loss-on*'").size(), ids("sharding").size() + 2);
}

TEST(List, VerboseHasEveryVariant) {
  EXPECT_THAT(lockstep("list -v loss-on-unwrapped-module").out,
              HasSubstr("\n    all-reduce-each "));
}

TEST(Documents, HaveWhatTheProgramListsOfTheScenarios) {
  EXPECT_THAT(text_of(LOCKSTEP_SOURCE_DIR "/docs/commands.md"),
              HasSubstr("<!-- scenarios: ci/catalogue -->\n" +
                        lockstep("list --format markdown").out + "<!-- /scenarios -->\n"))
      << "ci/catalogue writes it";
  EXPECT_EQ(text_of(LOCKSTEP_SOURCE_DIR "/docs/catalogue.md"),
            lockstep("list -v --format markdown").out)
      << "ci/catalogue writes it";
}

TEST(Documents, AreAllLinkedFromTheReadme) {
  const std::string readme = text_of(LOCKSTEP_SOURCE_DIR "/README.md");
  for (const auto& entry : fs::directory_iterator(LOCKSTEP_SOURCE_DIR "/docs")) {
    const std::string name = entry.path().filename().string();
    EXPECT_THAT(readme, HasSubstr("(docs/" + name + ")"));
  }
}

TEST(Show, HasATableOfTheVariants) {
  const Outcome show = lockstep("show loss-on-unwrapped-module");
  EXPECT_EQ(show.status, 0);
  EXPECT_THAT(show.out, HasSubstr("\n  Class:        synchronisation\n"));
  EXPECT_THAT(show.out, testing::ContainsRegex("\n  bypass +buggy "));
}

TEST(Show, OfAVariantSaysWhatIsExpectedOfIt) {
  const Outcome show = lockstep("show loss-on-unwrapped-module/bypass");
  EXPECT_EQ(show.status, 0);
  EXPECT_THAT(show.out, testing::StartsWith("loss-on-unwrapped-module/bypass (buggy)\n"));
  EXPECT_THAT(show.out, HasSubstr("breaks:  gradients agree across ranks"));
  EXPECT_THAT(show.out, HasSubstr("meets:   opentslm-49-gradients"));
}

TEST(Show, AsJsonIsThePartOfTheListThatWasAskedFor) {
  const auto shown =
      nlohmann::json::parse(lockstep("show loss-on-unwrapped-module/bypass --format json").out);
  ASSERT_EQ(shown.at("scenarios").size(), 1U);
  ASSERT_EQ(shown.at("scenarios").at(0).at("variants").size(), 1U);
  EXPECT_EQ(shown.at("scenarios").at(0).at("variants").at(0).at("name"), "bypass");
  EXPECT_EQ(shown.at("schema"), "lockstep.catalogue");
}

TEST(Run, OfAPatternRunsWhatItMeets) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "run").string();
  const Outcome outcome =
      lockstep("run 'loss-on-unwrapped-modul[e]/all-reduce-[ef]*' --steps 1 --out " + out);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  std::set<std::string> variants;
  const auto record = nlohmann::json::parse(text_of(out + "/record.json"));
  for (const auto& cell : record.at("cells")) variants.insert(cell.at("cell").at("variant"));
  EXPECT_THAT(variants, testing::ElementsAre("all-reduce-each", "all-reduce-flat", "reference"));
}

}  // namespace
}  // namespace lockstep
