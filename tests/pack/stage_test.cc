#include "harness/pack/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// What a pack holds of a text that rank 0 wrote.
std::string staged(const std::string& text) {
  const TemporaryFolder source, target;
  Execution job;
  job.folder = "job";
  job.processes = 1;
  const fs::path file = fs::path("job") / "rank-0.watch.json";
  fs::create_directory(source.path() / "job");
  write_text(source.path() / file, text);
  stage_files(job, source.path(), target.path());
  return text_of(target.path() / file);
}

TEST(StagedTexts, HaveNoSecrets) {
  EXPECT_EQ(staged(R"({"lr": "0.1"})"), R"({"lr": "0.1"})");
  EXPECT_THAT(staged(R"({"api_key": ["s3cr3t"]})"), testing::Not(testing::HasSubstr("s3cr3t")));
  EXPECT_THAT(staged(R"({"api_key": "s3cr3t", "api_key": "s3cr3t"})"),
              testing::Not(testing::HasSubstr("s3cr3t")));
}

/// Without a stack frame for each level.
TEST(StagedTexts, MayBeNestedInAnyNumberOfLevels) {
  const std::string lists = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_EQ(staged(lists), lists);
  std::string objects;
  for (int level = 0; level < 300'000; ++level) objects += R"({"a":)";
  EXPECT_THAT(staged(objects + R"({"password": "s3cr3t"})" + std::string(300'000, '}')),
              testing::Not(testing::HasSubstr("s3cr3t")));
}

}  // namespace
}  // namespace lockstep
