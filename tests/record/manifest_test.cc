#include "harness/record/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <span>

#include "harness/record/digest.h"
#include "harness/record/journal.h"
#include "harness/record/journal_writer.h"
#include "reports/base/error.h"
#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kIdentity = "a-scenario/variant/w2 with seed 0 and 2 steps";

/// Files of two ranks: journals of two rows, and others.
class Manifest : public testing::Test {
 protected:
  Manifest() {
    for (int rank = 0; rank < 2; ++rank) {
      JournalWriter journal(journal_file(folder_.path(), rank), "rank");
      for (std::int64_t step = 1; step <= 2; ++step) {
        Observation row;
        row.step = step;
        row.name = "w";
        row.dtype = "float32";
        row.digest = {1, 2};
        journal.append(row);
      }
    }
    write("rank-0.status.json", "{}");
    write("rank-1.step-2.safetensors", "values");
    write("collectives-0.bin", "calls");
    write("rank-0.log", "printed");
    write("rank-2.csv", "of a rank that is none of the two");
    write("rank-00.csv", "of nobody");
    write("notes.txt", "mine");
    seal_ = write_manifest(folder_.path(), 2, kIdentity);
  }

  void write(const std::string& name, const std::string& text) const {
    write_text(folder_.path() / name, text);
  }
  std::string text() const { return text_of(manifest_file(folder_.path())); }

  std::vector<std::string> faults() const {
    return manifest_faults(folder_.path(), 2, kIdentity, seal_);
  }

  TemporaryFolder folder_;
  ManifestSeal seal_;
};

TEST_F(Manifest, ListsWhatRanksLeftByRankAndName) {
  std::vector<std::string> lines;
  std::istringstream list(text());
  for (std::string line; std::getline(list, line);) lines.push_back(line);
  EXPECT_THAT(lines, ElementsAre(StartsWith("# manifest 1, digest lockstep-2, a-scenario/variant"),
                                 "file,rank,rows,steps,bytes,digest",
                                 StartsWith("collectives-0.bin,0,,,5,"),  //
                                 StartsWith("rank-0.csv,0,2,2,"), StartsWith("rank-0.index,0,,,"),
                                 StartsWith("rank-0.status.json,0,,,2,"),
                                 StartsWith("rank-0.tensors.csv,0,,,"),
                                 StartsWith("rank-1.csv,1,2,2,"), StartsWith("rank-1.index,1,,,"),
                                 StartsWith("rank-1.step-2.safetensors,1,,,6,"),
                                 StartsWith("rank-1.tensors.csv,1,,,")));
  EXPECT_EQ(seal_.files, 9);
  EXPECT_EQ(seal_.bytes, static_cast<std::int64_t>(text().size()));
}

/// The list of the journal shown in the format document, its table and its index.
TEST(ManifestFile, IsWrittenAsDocumented) {
  const TemporaryFolder folder;
  Observation row;
  row.step = 1;
  row.phase = Phase::pre_step;
  row.kind = Kind::gradient;
  row.name = "weight";
  row.dtype = "float32";
  row.global_shape = row.local_shape = {2, 2};
  row.offset = {0, 0};
  row.digest = {0xd5ce53c3ebc00000, 0x8802dfa05cc00000};
  row.statistics = {3.774917217635375, -3.0, 2.0, 0};
  const std::string cell = "loss-on-unwrapped-module/bypass/w2 with seed 0 and 5 steps";
  {
    JournalWriter journal(journal_file(folder.path(), 1), "rank 1 of " + cell);
    journal.append(row);
  }
  write_manifest(folder.path(), 2, cell);
  std::istringstream docs(text_of(LOCKSTEP_SOURCE_DIR "/docs/formats.md"));
  std::string documented;
  for (std::string line; std::getline(docs, line);) {
    for (const char* begin : {"# manifest", "file,rank", "rank-1."}) {
      if (line.starts_with(std::string("    ") + begin)) documented += line.substr(4) + "\n";
    }
  }
  EXPECT_EQ(text_of(manifest_file(folder.path())), documented);
}

TEST_F(Manifest, FitsTheFilesThatItWasMadeOf) { EXPECT_THAT(faults(), IsEmpty()); }

TEST_F(Manifest, NamesEveryFileThatWasChanged) {
  for (const char* name : {"collectives-0.bin", "rank-0.csv", "rank-0.index", "rank-0.status.json",
                           "rank-0.tensors.csv", "rank-1.step-2.safetensors"}) {
    const std::string before = text_of(folder_.path() / name);
    std::string other = before;
    other.back() ^= 1;
    write(name, other);
    EXPECT_THAT(faults(), ElementsAre(HasSubstr(std::string(name) + " was changed")));
    write(name, before + before.back());
    EXPECT_THAT(faults(), ElementsAre(HasSubstr(std::string(name) + " was changed")));
    write(name, before);
  }
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(Manifest, NamesFilesThatWereExchanged) {
  const auto path = [&](const char* name) { return folder_.path() / name; };
  fs::rename(path("rank-0.index"), path("kept"));
  fs::rename(path("rank-1.index"), path("rank-0.index"));
  fs::rename(path("kept"), path("rank-1.index"));
  // With the same bytes: no change.
  EXPECT_THAT(faults(), IsEmpty());
  fs::rename(path("rank-0.status.json"), path("rank-1.status.json"));
  EXPECT_THAT(faults(), ElementsAre("rank-1.status.json was added: manifest.csv does not list it",
                                    "rank-0.status.json is missing"));
}

/// As if from another machine, after the list was made.
TEST_F(Manifest, MayLackTheWordOfASupervisorThatCameLate) {
  write("rank-1.exit.json", "{}");
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(Manifest, MissesAllButSnapshotsAndIndices) {
  for (const char* name : {"rank-0.index", "rank-1.step-2.safetensors"}) {
    fs::remove(folder_.path() / name);
  }
  EXPECT_THAT(faults(), IsEmpty());
  for (const char* name : {"rank-0.tensors.csv", "collectives-0.bin"}) {
    fs::remove(folder_.path() / name);
    EXPECT_THAT(faults(), testing::Contains(std::string(name) + " is missing"));
  }
}

TEST_F(Manifest, IsKnownByItsSeal) {
  const std::string list = text();
  write("manifest.csv", list + "rank-1.csv,1,2,2,9,00\n");
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("manifest.csv was changed")));
  fs::remove(manifest_file(folder_.path()));
  EXPECT_THAT(faults(), ElementsAre("manifest.csv is missing"));
}

TEST_F(Manifest, OfAnotherVersionIsRefused) {
  const std::string list = text();
  const auto refusal_with = [&](const std::string& begin) -> std::string {
    const std::string changed = begin + list.substr(std::string("# manifest 1").size());
    write("manifest.csv", changed);
    seal_.bytes = static_cast<std::int64_t>(changed.size());
    seal_.digest = to_text(digest_run(std::as_bytes(std::span(changed)), 0));
    try {
      faults();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal_with("# manifest 1"), "accepted");
  EXPECT_THAT(refusal_with("# manifest 2"),
              HasSubstr("manifest.csv is a manifest of version '2', but this program reads version "
                        "1: use the Lockstep that wrote it, or record the run again."));
  for (const std::string version : {"0", "-1", "1.0", "x", "99999999999999999999"}) {
    EXPECT_THAT(refusal_with("# manifest " + version), HasSubstr("of version '" + version + "'"));
  }
  EXPECT_THAT(refusal_with("# manifest "), HasSubstr("is a manifest without a version, but"));
  for (const char* begin : {"# ", ""}) {
    EXPECT_THAT(refusal_with(begin), HasSubstr(":1: expected the header of a manifest, found"));
  }
}

/// Consistent changes of a file, the list and the record go undetected: the check is against faults
/// only.
TEST_F(Manifest, OfAnotherExecutionIsRefused) {
  try {
    manifest_faults(folder_.path(), 2, "another/cell/w2 with seed 0 and 2 steps", seal_);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("manifest.csv:1: expected # manifest 1, digest lockstep-2, "
                                        "another/cell/w2"));
  }
}

TEST_F(Manifest, ThatNamesWhatIsNoFileOfARankIsRefused) {
  write("manifest.csv",
        text().substr(0, text().find("collectives")) + "../../etc/passwd,0,,,9,00\n");
  const std::string list = text();
  const ManifestSeal seal{1, static_cast<std::int64_t>(list.size()),
                          to_text(digest_run(std::as_bytes(std::span(list)), 0))};
  EXPECT_THROW(manifest_faults(folder_.path(), 2, kIdentity, seal), Error);
}

TEST_F(Manifest, ListsAJournalThatCannotBeRead) {
  write("rank-0.csv", "no journal\n");
  const ManifestSeal seal = write_manifest(folder_.path(), 2, kIdentity);
  EXPECT_THAT(text(), HasSubstr("rank-0.csv,0,,,11,"));
  EXPECT_THAT(manifest_faults(folder_.path(), 2, kIdentity, seal), IsEmpty());
}

TEST_F(Manifest, SaysThatItsFolderIsGone) {
  EXPECT_THROW(write_manifest(folder_.path() / "none", 2, kIdentity), Error);
}

}  // namespace
}  // namespace lockstep
