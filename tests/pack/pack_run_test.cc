// What a pack holds of a run, and what a reader makes of it.

#include "harness/pack/pack_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "harness/job/attempts.h"
#include "harness/pack/archive.h"
#include "harness/pack/opened_run.h"
#include "harness/pack/pack_label.h"
#include "harness/record/environment.h"
#include "harness/record/folder_lock.h"
#include "harness/record/journal.h"
#include "harness/record/journal_segments.h"
#include "reports/base/error.h"
#include "reports/record/json.h"
#include "reports/record/result.h"
#include "tests/command.h"
#include "tests/pack/stored_job.h"
#include "tests/refusal.h"
#include "tests/reports/formats/literal_run.h"
#include "tests/secret_forms.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A pack of a stored job, opened.
class Packed {
 public:
  explicit Packed(const StoredJob& job, PackContents contents = PackContents::files,
                  const std::vector<std::string>& redact = {})
      : file_(job.beside("pack.tar.gz")) {
    written_ = pack_run({job.folder(), file_.string(), contents, redact});
    opened_.emplace(file_.string());
  }

  const OpenedRun& opened() const { return *opened_; }
  const WrittenPack& written() const { return written_; }
  RunRecord record() const { return load_record(opened_->folder()); }

  /// Judged by its files.
  RunRecord judged(IndexUse use = IndexUse::believed) const {
    RunRecord run = record();
    judge_run(run, opened_->folder(), {use});
    return run;
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(opened_->folder())) {
      if (entry.is_regular_file()) {
        names.insert(entry.path().lexically_relative(opened_->folder()));
      }
    }
    return names;
  }

  std::string text(const std::string& name) const { return text_of(opened_->folder() / name); }

  /// All bytes of all files, and their names.
  std::string bytes() const {
    std::string all;
    for (const std::string& name : files()) all += name + text_of(opened_->folder() / name);
    return all;
  }

 private:
  fs::path file_;
  WrittenPack written_;
  std::optional<OpenedRun> opened_;
};

std::string refusal_of_pack(const StoredJob& job, PackContents contents = PackContents::files,
                            const std::vector<std::string>& redact = {}) {
  return refusal_of("Cannot pack " + job.folder().string(), [&] {
    pack_run({job.folder(), job.beside("refused.tar.gz").string(), contents, redact});
  });
}

TEST(Pack, IsJudgedLikeItsRun) {
  const StoredJob job;
  const Packed pack(job);
  ASSERT_EQ(verdict_of(job.job()), Verdict::violated);
  for (const IndexUse use : {IndexUse::believed, IndexUse::checked, IndexUse::ignored}) {
    const JobRecord judged = pack.judged(use).jobs[0];
    EXPECT_THAT(judged.faults, IsEmpty());
    EXPECT_EQ(judged.results, job.job().results);
    EXPECT_EQ(judged.mismatch, job.job().mismatch);
    EXPECT_EQ(judged.symptom, job.job().symptom);
  }
}

TEST(Pack, HoldsWhatAReportNeedsAndNotTheOutputs) {
  const StoredJob job;
  const std::set<std::string> files = Packed(job).files();
  for (const char* name :
       {"record.json", "pack.json", "job/manifest.csv", "job/rank-0.csv", "job/rank-1.index",
        "job/rank-1.tensors.csv", "job/rank-0.step-3.safetensors", "job/rank-1.stalled.json",
        "job/rank-1.ended.json", "job/rank-1.status.json", "job/rank-0.watch.json",
        "job/stall.json", "job/rank-0.stacks"}) {
    EXPECT_THAT(files, Contains(name));
  }
  EXPECT_THAT(files, Not(Contains("job/rank-0.log")));
}

/// What ranks wrote of their training, in every form of a secret.
TEST(Pack, HoldsNoSecretOfTheRanks) {
  for (const std::string& form : secret_forms()) {
    const StoredJob job([&](const fs::path& files) {
      RankStatus status = read_rank_status(rank_status_file(files, 0));
      const std::string process = status.process;
      const nlohmann::json raw = {{"process", process}, {"step", 4},       {"line", 0},
                                  {"ended", false},     {"raised", false}, {"is_own", false},
                                  {"error", form},      {"cause", "none"}};
      write_text(rank_status_file(files, 0), raw.dump());
      const nlohmann::json facts = {{"world_size", 2},
                                    {"torch", "2.11.0"},
                                    {"failure", form},
                                    {"configuration", {{"a", form}, {"hub.token", "plainwords"}}}};
      write_text(files / "rank-0.watch.json", facts.dump());
      write_text(files / "rank-0.stacks", form);
      nlohmann::json stall = nlohmann::json::parse(text_of(files / "stall.json"));
      for (auto& rank : stall["ranks"]) rank["place"] = form;
      write_text(files / "stall.json", stall.dump());
      nlohmann::json answer = nlohmann::json::parse(text_of(files / "rank-0.stalled.json"));
      answer["failure"] = answer["threads"][0]["function"] = form;
      answer["calls"][0]["site"] = answer["calls"][1]["site"] = form;
      write_text(files / "rank-0.stalled.json", answer.dump());
      answer["is_abort"] = true;
      answer["now_ns"] = 1000;
      write_text(files / "rank-0.ended.json", answer.dump());
    });
    const Packed pack(job);
    for (const std::string& name : pack.files()) {
      EXPECT_FALSE(has_secret(pack.text(name))) << name << ": " << form;
    }
    EXPECT_THAT(pack.text("job/rank-0.watch.json"), Not(HasSubstr("plainwords")));
    EXPECT_THAT(pack.judged(IndexUse::checked).jobs[0].faults, IsEmpty());
  }
}

/// Without the rows of step 2, in which the ranks agreed, and with a second segment, just begun.
void thin_second_step(const fs::path& files) {
  for (int rank = 0; rank < 2; ++rank) {
    const fs::path journal = journal_file(files, rank);
    const std::string lines = text_of(journal).substr(0, read_journal_header(journal).bytes);
    std::ofstream(segment_file(journal, 2)) << lines;
    thin_journal(journal, [](std::int64_t step) { return step != 2; });
    fs::remove(snapshot_file(files, rank, 2));
  }
}

TEST(Pack, OfAThinnedJobIsJudgedLikeIt) {
  const StoredJob job(thin_second_step);
  ASSERT_EQ(job.job().steps, (ObservedSteps{4, 1, 4, 1}));
  const Packed pack(job);
  EXPECT_THAT(pack.files(), Contains("job/rank-1.segment-2.csv"));
  const JobRecord judged = pack.judged(IndexUse::checked).jobs[0];
  EXPECT_THAT(judged.faults, IsEmpty());
  EXPECT_EQ(judged.results, job.job().results);
  EXPECT_EQ(judged.steps, job.job().steps);
}

/// The index of removed rows cannot be written with other names.
TEST(RedactedPack, OfAThinnedJobHasTheStepsThatHaveRows) {
  const StoredJob job(thin_second_step);
  const Packed pack(job, PackContents::files, {"secret"});
  EXPECT_THAT(pack.files(), Contains("job/rank-1.segment-2.csv"));
  EXPECT_THAT(pack.files(), Not(Contains("job/rank-1.index")));
  const JobRecord judged = pack.judged(IndexUse::believed).jobs[0];
  EXPECT_THAT(judged.faults, IsEmpty());
  EXPECT_EQ(judged.steps, (ObservedSteps{3, 1, 4, 0}));
  EXPECT_EQ(verdict_of(judged), Verdict::violated);
}

TEST(Pack, SaysNothingOfTheMachineNorOfCommandLines) {
  const StoredJob job;
  const Packed pack(job);
  const RunRecord run = pack.record();
  EXPECT_EQ(run.command, (std::vector<std::string>{"lockstep", "watch", "masked"}));
  EXPECT_EQ(run.jobs[0].title, "torchrun");
  EXPECT_EQ(run.environment.host, "masked");
  EXPECT_THAT(run.environment.variables, IsEmpty());
  for (const char* secret : {"secret-host", "secret-address", "secret_train", "/opt/private"}) {
    EXPECT_THAT(pack.bytes(), Not(HasSubstr(secret)));
  }
}

TEST(Pack, OfTheSameRunHasTheSameBytes) {
  const StoredJob job;
  for (const char* name : {"a", "b"}) {
    pack_run({job.folder(), job.beside(name).string(), PackContents::files, {"secret"}});
  }
  EXPECT_EQ(text_of(job.beside("a")), text_of(job.beside("b")));
}

TEST(Pack, IsRemovedFromTheScratchFolder) {
  const StoredJob job;
  fs::path folder;
  {
    const Packed pack(job);
    folder = pack.opened().folder();
    EXPECT_TRUE(fs::exists(folder / "record.json"));
  }
  EXPECT_FALSE(fs::exists(folder.parent_path()));
}

TEST(Pack, IsWholeOrNotThereAfterASignal) {
  const StoredJob job;
  const fs::path file = job.beside("p.tar.gz");
  int whole = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      pack_run({job.folder(), file.string(), PackContents::files, {}});
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(500 * i));
    ::kill(child, SIGTERM);
    ::waitpid(child, nullptr, 0);
    if (!fs::exists(file)) continue;
    ++whole;
    const Outcome read = run_shell(fmt::format("tar -tzf {} | tail -n 1", file.string()));
    EXPECT_THAT(read.out, HasSubstr("pack.json")) << i;
    fs::remove(file);
  }
  EXPECT_LT(whole, 20);
  for (const auto& entry : fs::directory_iterator(file.parent_path())) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

/// Everything about a redacted job is said of "name-N", and nothing else changes.
TEST(RedactedPack, HoldsNoneOfTheNamesAndHasTheSameFindings) {
  const StoredJob job;
  const Packed pack(job, PackContents::files, {"secret"});
  EXPECT_THAT(pack.bytes(), Not(HasSubstr("secret")));
  EXPECT_THAT(pack.bytes(), HasSubstr("head.weight"));
  for (const IndexUse use : {IndexUse::believed, IndexUse::checked, IndexUse::ignored}) {
    const JobRecord judged = pack.judged(use).jobs[0];
    EXPECT_THAT(judged.faults, IsEmpty());
    EXPECT_EQ(verdict_of(judged), verdict_of(job.job()));
    EXPECT_EQ(judged.symptom.kind, job.job().symptom.kind);
    EXPECT_EQ(judged.symptom.wrong_step, 3);
    ASSERT_EQ(judged.results.size(), job.job().results.size());
    for (std::size_t i = 0; i < judged.results.size(); ++i) {
      const ClaimResult& told = judged.results[i];
      const ClaimResult& original = job.job().results[i];
      EXPECT_EQ(told.verdict, original.verdict);
      EXPECT_EQ(told.comparisons, original.comparisons);
      ASSERT_EQ(told.findings.size(), original.findings.size());
      for (std::size_t j = 0; j < told.findings.size(); ++j) {
        EXPECT_EQ(told.findings[j].step, original.findings[j].step);
        EXPECT_EQ(told.findings[j].groups, original.findings[j].groups);
        EXPECT_EQ(told.findings[j].first_difference, original.findings[j].first_difference);
      }
    }
    ASSERT_TRUE(judged.mismatch && job.job().mismatch);
    EXPECT_EQ(judged.mismatch->fault, job.job().mismatch->fault);
    EXPECT_EQ(judged.mismatch->number, job.job().mismatch->number);
    EXPECT_EQ(judged.mismatch->culprits, job.job().mismatch->culprits);
    EXPECT_EQ(judged.coverage.compared, job.job().coverage.compared);
  }
}

/// The findings that the record stores have the pseudonyms that a judge finds in the files.
TEST(RedactedPack, SaysTheSameInItsRecordAsItsFilesDo) {
  const StoredJob job;
  const Packed pack(job, PackContents::files, {"^encoder\\.", "^secret"});
  EXPECT_EQ(pack.record().jobs[0].results, pack.judged().jobs[0].results);
  EXPECT_EQ(pack.record().jobs[0].symptom, pack.judged().jobs[0].symptom);
  EXPECT_EQ(pack.record().jobs[0].coverage, pack.judged().jobs[0].coverage);
}

/// "^inner" matches no name within a sentence: it has to be known.
TEST(RedactedPack, ReplacesNamesOfFactsInSentencesToo) {
  StoredJob job;
  JobRecord& changed = job.record().jobs[0];
  changed.copies = {{"inner.bias", "a", {0}}};
  changed.samplers = {{"DistributedSampler", "inner.py:3"}};
  changed.frozen = {{"innerTeacher", "inner.weight", "a", "b", {0}}};
  changed.divided_apart = {{"FSDP", "innerly.py:4", 2, {"innerMost.weight"}}};
  changed.wrong_metrics = {{"inner_loss", "mean", 1, 2, 3}};
  changed.notes = {
      "of innerTeacher: inner.weight, at inner.py:3; as inner.bias; the metric inner_loss; "
      "innerMost.weight, at innerly.py:4"};
  save_record(job.folder(), job.record());
  const Packed pack(job, PackContents::findings, {"^inner"});
  EXPECT_THAT(pack.bytes(), Not(HasSubstr("inner")));
  EXPECT_EQ(pack.record().jobs[0].notes.size(), 1U);
}

TEST(RedactedPack, SaysThatNamesWereReplaced) {
  const StoredJob job;
  const Packed one(job, PackContents::files, {"^head"});
  EXPECT_EQ(one.written().masked_names, 1U);
  EXPECT_THAT(one.record().notes, Contains("a name was replaced in this pack, by name-1"));
  fs::remove(job.beside("pack.tar.gz"));
  const Packed several(job, PackContents::files, {"weight"});
  EXPECT_THAT(several.record().notes, Contains(HasSubstr(" names were replaced in this pack, by")));
}

TEST(RedactedPack, LeavesTextsOfSourcesOut) {
  const StoredJob job;
  const std::set<std::string> files = Packed(job, PackContents::files, {"nothing"}).files();
  for (const char* name :
       {"job/rank-0.stacks", "job/rank-0.status.json", "job/rank-0.watch.json", "job/rank-0.log"}) {
    EXPECT_THAT(files, Not(Contains(name)));
  }
}

/// A seal of the changed files would hide the change.
TEST(Pack, IsRefusedIfAFileWasChanged) {
  for (const std::vector<std::string>& redact : {std::vector<std::string>{}, {"secret"}}) {
    const StoredJob job;
    std::string journal = text_of(job.files() / "rank-1.csv");
    journal.back() = ' ';
    write_text(job.files() / "rank-1.csv", journal);
    EXPECT_THAT(refusal_of_pack(job, PackContents::files, redact),
                AllOf(HasSubstr("rank-1.csv was changed"), HasSubstr("--findings-only")));
    EXPECT_FALSE(fs::exists(job.beside("refused.tar.gz")));
    EXPECT_EQ(refusal_of_pack(job, PackContents::findings, redact), "accepted");
  }
}

/// Of what the hook of a rank wrote that stands still, the file and the place are named.
TEST(RedactedPack, IsRefusedIfAnAnswerIsMalformed) {
  using Json = nlohmann::json;
  const auto refusal = [](const std::string& pointer, const Json& value) {
    StoredJob job;
    const fs::path file = job.files() / "rank-1.stalled.json";
    Json answer = Json::parse(text_of(file));
    answer[Json::json_pointer(pointer)] = value;
    write_text(file, answer.dump());
    JobRecord& sealed = job.record().jobs[0];
    sealed.manifest = write_manifest(job.files(), 2, execution_identity(sealed));
    save_record(job.folder(), job.record());
    return refusal_of(file, [&] {
      pack_run({job.folder(), job.beside("p.tar.gz").string(), PackContents::files, {"secret"}});
    });
  };
  const std::string expected = ": expected what the hook of a watched rank writes, found ";
  for (const char* place : {"groups[0].name", "calls[1].group", "threads[0].function"}) {
    std::string pointer = "/" + std::string(place);
    for (char& c : pointer) c = c == '[' || c == '.' ? '/' : c;
    std::erase(pointer, ']');
    EXPECT_EQ(refusal(pointer, 7), ": " + std::string(place) + expected + "'7'.") << place;
    EXPECT_EQ(refusal(pointer, nullptr), ": " + std::string(place) + expected + "'null'.") << place;
  }
  EXPECT_EQ(refusal("/threads", "none"), ": threads" + expected + "'\"none\"'.");
  EXPECT_EQ(refusal("/threads/0", 1.5), ": threads[0]" + expected + "'1.5'.");
  EXPECT_EQ(refusal("", Json::array()), expected + "'an array'.");
  EXPECT_EQ(refusal("/groups/0/name", Json::object()),
            ": groups[0].name" + expected + "'an object'.");
}

/// Its index, which fits in no way, would be written anew.
TEST(RedactedPack, IsRefusedIfAnIndexDoesNotFit) {
  const StoredJob job([](const fs::path& files) {
    fs::copy_file(files / "rank-0.index", files / "rank-1.index",
                  fs::copy_options::overwrite_existing);
  });
  EXPECT_EQ(verdict_of(job.job()), Verdict::violated);
  const auto pack = [&](const std::vector<std::string>& redact) {
    return refusal_of("", [&] {
      pack_run({job.folder(), job.beside("p.tar.gz").string(), PackContents::files, redact});
    });
  };
  EXPECT_THAT(pack({"secret"}), HasSubstr("rank-1.index: expected an index of rank 1"));
  EXPECT_EQ(pack({}), "accepted") << "the pack has the same index";
}

TEST(Pack, OfDeletedSnapshotsAndIndicesIsNoChange) {
  const StoredJob job;
  fs::remove(job.files() / "rank-0.index");
  fs::remove(job.files() / "rank-1.step-3.safetensors");
  EXPECT_THAT(Packed(job, PackContents::files, {"secret"}).judged().jobs[0].faults, IsEmpty());
}

TEST(Pack, IsRefusedForALink) {
  const StoredJob job;
  fs::remove(job.files() / "rank-0.stacks");
  fs::create_symlink("/etc/passwd", job.files() / "rank-0.stacks");
  EXPECT_THAT(refusal_of("",
                         [&] {
                           pack_run({job.folder(), job.beside("p.tar.gz").string()});
                         }),
              HasSubstr("rank-0.stacks: it is no file"));
}

TEST(Pack, IsRefusedWhileTheRunGoesOn) {
  const StoredJob job;
  const FolderLock lock(job.folder());
  EXPECT_EQ(refusal_of_pack(job), ": it still runs. Wait until it has ended.");
}

TEST(Pack, OfScenariosKeepsTheirNames) {
  const TemporaryFolder folder;
  RunRecord run = literal_run();
  run.jobs.clear();
  for (CellRecord& cell : run.cells) cell.processes = 0, cell.exits.clear();
  run.planned = counts_of(run);
  save_record(folder.path(), run);
  EXPECT_THAT(refusal_of("",
                         [&] {
                           pack_run({folder.path(),
                                     (folder.path() / "p").string(),
                                     PackContents::files,
                                     {"weight"}});
                         }),
              HasSubstr("it has cells of scenarios, whose expectations name their tensors."));
}

/// Its record was saved when it started, without ranks.
TEST(Pack, OfAJobWhoseWatchWasKilledIsJudgedLikeIt) {
  StoredJob job;
  RunRecord& run = job.record();
  run.environment.host = host_name();
  JobRecord& record = run.jobs[0];
  record.world_size = record.processes = 0;
  record.exits.clear();
  record.results.clear();
  record.manifest.reset();
  record.symptom = {};
  save_record(job.folder(), run);
  take_up(run, job.folder());
  judge_run(run, job.folder());
  ASSERT_FALSE(record.results.empty());
  const JobRecord plain = Packed(job).judged().jobs[0];
  EXPECT_EQ(plain.results, record.results);
  EXPECT_EQ(plain.unsealed, "the watch of the job has not ended");
  fs::remove(job.beside("pack.tar.gz"));
  const Packed redacted(job, PackContents::files, {"secret"});
  EXPECT_EQ(verdict_of(redacted.judged().jobs[0]), verdict_of(record));
  EXPECT_THAT(redacted.bytes(), Not(HasSubstr("secret")));
}

TEST(FindingsPack, HasTheStoredResultsAndNoFile) {
  const StoredJob job;
  const Packed pack(job, PackContents::findings);
  EXPECT_EQ(pack.files(), (std::set<std::string>{"record.json", "pack.json"}));
  EXPECT_FALSE(pack.opened().has_files());
  EXPECT_EQ(pack.record().jobs[0].results, job.job().results);
  EXPECT_THAT(pack.record().notes, Contains(HasSubstr("nothing was judged again")));
}

TEST(FindingsPack, WithoutNamesHoldsNoneOfThem) {
  const StoredJob job;
  const Packed pack(job, PackContents::findings, {"secret"});
  EXPECT_THAT(pack.bytes(), Not(HasSubstr("secret")));
}

TEST(FindingsPack, NeedsARunThatWasJudged) {
  StoredJob job;
  JobRecord& record = job.record().jobs[0];
  record.results.clear();
  record.symptom = {};
  job.record().environment.host = host_name();
  save_record(job.folder(), job.record());
  EXPECT_THAT(refusal_of_pack(job, PackContents::findings), HasSubstr(": it was never judged"));
  EXPECT_EQ(refusal_of_pack(job), "accepted");
}

/// Judging it would find no journal.
TEST(FindingsPack, IsNotPackedAgainWithFiles) {
  const StoredJob job;
  const Packed pack(job, PackContents::findings);
  EXPECT_THAT(refusal_of("",
                         [&] {
                           pack_run({pack.opened().folder(), job.beside("p.tar.gz").string()});
                         }),
              HasSubstr("without the files of ranks"));
}

/// A pack without a label, or with another one.
std::string refusal_of_label(const std::string& label) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "run.tar.gz";
  ArchiveWriter writer(file);
  writer.add_text("run/record.json", "{}");
  if (!label.empty()) writer.add_text("run/pack.json", label);
  writer.finish();
  return refusal_of("", [&] { OpenedRun opened(file.string()); });
}

TEST(OpenedRun, RefusesAnArchiveWithoutAKnownLabel) {
  EXPECT_THAT(refusal_of_label(""), HasSubstr("it holds no pack.json"));
  EXPECT_THAT(refusal_of_label("{"), HasSubstr("expected what 'lockstep pack' writes"));
  EXPECT_THAT(refusal_of_label(R"({"schema": "other", "version": "1.0"})"),
              HasSubstr("expected what 'lockstep pack' writes"));
  EXPECT_THAT(refusal_of_label(R"({"schema": "lockstep.pack", "version": "2.0"})"),
              HasSubstr("pack.json is a pack of version '2.0', but this program reads version "
                        "1.0: use the Lockstep that wrote it, or record the run again."));
  const std::string rest = R"("contents": "files", "masked_names": 0})";
  const auto refusal_of_version = [&](const std::string& version) {
    return refusal_of_label(R"({"schema": "lockstep.pack", )" + version + rest);
  };
  EXPECT_EQ(refusal_of_version(R"("version": "1.0", "new": 1, )"), "accepted");
  EXPECT_THAT(refusal_of_version(""), HasSubstr("is a pack without a version, but"));
  for (const char* version : {"0", "1", "1e300", "\"1.1\"", "\"x\"", "[]", "null"}) {
    EXPECT_THAT(refusal_of_version(std::string("\"version\": ") + version + ", "),
                AllOf(HasSubstr("is a pack of version '"), HasSubstr("reads version 1.0")))
        << version;
  }
}

/// Whatever else an archive holds.
TEST(OpenedRun, HasTheFilesOfTheFoldersThatItsRecordNames) {
  const StoredJob job;
  const fs::path file = job.beside("more.tar.gz");
  ArchiveWriter writer(file);
  for (const char* name : {"job/rank-0.csv", "job/other.txt", "job/inner/rank-0.csv", "rank-0.csv",
                           "jobs/rank-0.csv", "job/manifest.csv", "job/stall.json"}) {
    writer.add_text(std::string("run/") + name, "text");
  }
  writer.add_text("run/record.json", text_of(job.folder() / "record.json"));
  writer.add_text("run/pack.json", render_label({}));
  writer.finish();
  const OpenedRun opened(file.string());
  EXPECT_EQ(run_shell("cd " + opened.folder().string() + " && find . -type f | sort").out,
            "./job/manifest.csv\n./job/rank-0.csv\n./job/stall.json\n./pack.json\n./record.json\n");
}

TEST(OpenedRun, IsTheFolderItselfIfThatIsNamed) {
  const StoredJob job;
  EXPECT_EQ(OpenedRun(job.folder().string()).folder(), job.folder());
  EXPECT_EQ(OpenedRun((job.folder() / "record.json").string()).folder(), job.folder());
  EXPECT_TRUE(OpenedRun(job.folder().string()).has_files());
}

}  // namespace
}  // namespace lockstep
