#include "harness/record/texts_of_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "harness/record/whole_file.h"
#include "reports/base/regular_file.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kToken = "hf_abcdefghijklmnopqrstuvwxyzabcdefgh";

std::string text_in(const std::filesystem::path& file) { return read_text(file, kLargestTexts); }

TEST(TextsOfRanks, HoldNoSecretOnceTheyAreMasked) {
  const TemporaryFolder folder;
  for (const char* const name : {"rank-0.watch.json", "rank-1.status.json", "rank-1.stalled.json",
                                 "rank-0.elsewhere.json", "process-7.error.json", "stall.json"}) {
    write_whole_file(folder.path() / name, std::string(R"({"error": "401 for )") + kToken +
                                               R"(", "token": "a b", "n": 1})");
  }
  for (const char* const name : {"rank-0.stacks", "rank-12.log", "launcher.log"}) {
    write_whole_file(folder.path() / name, std::string("login(") + kToken + ")\n");
  }
  EXPECT_EQ(files_of_texts(folder.path()).size(), 9);
  mask_texts_of_ranks(folder.path());
  for (const std::string& name : files_of_texts(folder.path())) {
    const std::string text = text_in(folder.path() / name);
    EXPECT_THAT(text, Not(HasSubstr(kToken))) << name;
    EXPECT_THAT(text, Not(HasSubstr("a b"))) << name;
    EXPECT_THAT(text, HasSubstr("***")) << name;
  }
}

TEST(TextsOfRanks, StayAsTheyAreWithoutASecret) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "rank-0.watch.json";
  const std::string text = R"({"z": 1,"attn.key.weight":"w"  , "a": [2]})";
  write_whole_file(file, text);
  const auto written = std::filesystem::last_write_time(file);
  mask_texts_of_ranks(folder.path());
  EXPECT_EQ(text_in(file), text);
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
}

/// Tensors, tables and what is no file of a rank are none of them.
TEST(TextsOfRanks, AreNoOtherFiles) {
  const TemporaryFolder folder;
  for (const char* const name :
       {"rank-0.csv", "rank-0.step-1.safetensors", "record.json", "a.log"}) {
    write_whole_file(folder.path() / name, kToken);
  }
  mask_texts_of_ranks(folder.path());
  EXPECT_THAT(files_of_texts(folder.path()), testing::IsEmpty());
  EXPECT_EQ(text_in(folder.path() / "rank-0.csv"), kToken);
}

TEST(TextsOfRanks, OfADeepDocumentAreMaskedAsText) {
  const std::string deep(1'000'000, '[');
  const std::string masked = masked_text_of_file(
      "rank-0.watch.json", deep + '"' + kToken + '"' + std::string(deep.size(), ']'));
  EXPECT_THAT(masked.substr(deep.size(), 60), Not(HasSubstr(kToken)));
  EXPECT_EQ(masked.substr(0, deep.size()), deep);
}

/// A folder or a link in the place of a file is not followed.
TEST(TextsOfRanks, AreFilesAlone) {
  const TemporaryFolder folder, elsewhere;
  write_whole_file(elsewhere.path() / "notes", kToken);
  std::filesystem::create_symlink(elsewhere.path() / "notes", folder.path() / "rank-0.log");
  std::filesystem::create_directory(folder.path() / "rank-1.log");
  mask_texts_of_ranks(folder.path());
  EXPECT_EQ(text_in(elsewhere.path() / "notes"), kToken);
}

}  // namespace
}  // namespace lockstep
