#include "harness/validate/fixed_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

/// Two states of a checkout, each with a.py and b.py.
class FixedCodeTest : public testing::Test {
 protected:
  FixedCodeTest() {
    for (const char* name : {"one", "two", "checkout"}) {
      fs::create_directories(folder_.path() / name);
      for (const char* file : {"a.py", "b.py"}) write_text(folder_.path() / name / file, "");
    }
  }

  CodeState state(const std::string& name) const {
    CodeState state;
    state.title = name;
    state.top = folder_.path() / name;
    state.sources = {state.top.string(), (folder_.path() / "checkout").string()};
    return state;
  }

  /// "one/a.py" with its digest.
  JobExecution files(const std::vector<std::pair<std::string, std::string>>& all) const {
    JobExecution files;
    files.is_known = true;
    for (const auto& [file, digest] : all) files.digests[(folder_.path() / file).string()] = digest;
    return files;
  }

  FixedCode code(const JobExecution& before, const JobExecution& after,
                 const std::optional<std::vector<std::string>>& changed) const {
    const CodeState one = state("one"), two = state("two");
    return fixed_code({one, before}, {two, after}, changed);
  }

  TemporaryFolder folder_;
};

TEST_F(FixedCodeTest, TellsExecutedFilesThatChangedFromOthers) {
  const FixedCode found = code(files({{"one/a.py", "1"}, {"one/b.py", "1"}}),
                               files({{"two/a.py", "2"}, {"two/b.py", "1"}}), {{"a.py", "c.py"}});
  EXPECT_THAT(found.executed, ElementsAre("a.py"));
  EXPECT_THAT(found.shared, IsEmpty());
  EXPECT_FALSE(found.has_other_files);
  EXPECT_FALSE(is_unexecuted(found));
}

TEST_F(FixedCodeTest, IsUnexecutedIfNobodyImportsWhatChanged) {
  const auto one = files({{"one/a.py", "1"}}), two = files({{"two/a.py", "1"}});
  EXPECT_TRUE(is_unexecuted(code(one, two, {{"b.py"}})));
  EXPECT_TRUE(is_unexecuted(code(one, two, {{"b.py", "README.md"}})));
  EXPECT_FALSE(is_unexecuted(code(one, two, {{"config.yaml"}}))) << "which may have been read";
  EXPECT_FALSE(is_unexecuted(code({}, two, {{"b.py"}}))) << "nobody said what was executed";
  EXPECT_FALSE(is_unexecuted(code(one, two, std::nullopt))) << "folders may differ in more";
}

TEST_F(FixedCodeTest, IsSharedIfBothSidesImportedItFromOneFolder) {
  const auto both = files({{"checkout/a.py", "1"}, {"checkout/b.py", "1"}});
  EXPECT_THAT(code(both, both, {{"b.py"}}).shared, ElementsAre("b.py"));
  EXPECT_THAT(code(both, both, {{"c.py"}}).shared, IsEmpty()) << "they are the same in both states";
  EXPECT_THAT(code(both, both, std::nullopt).shared, ElementsAre("a.py", "b.py"));
  EXPECT_THAT(code(both, files({{"two/a.py", "1"}}), {{"a.py"}}).shared, IsEmpty());
  const auto environment = files({{"checkout/.venv/torch.py", "1"}});
  EXPECT_THAT(code(environment, environment, {{"a.py"}}).shared, IsEmpty())
      << "no state has that file";
}

TEST_F(FixedCodeTest, CountsExtensionsByTheirContent) {
  const FixedCode found = code(files({{"one/x.so", "1"}}), files({{"two/x.so", "2"}}), {{"x.cc"}});
  EXPECT_THAT(found.executed, ElementsAre("x.so"));
}

TEST_F(FixedCodeTest, ComparesFilesOfTwoEnvironmentsInThem) {
  CodeState old = state("checkout"), recent = state("checkout");
  old.environment = folder_.path() / "one";
  recent.environment = folder_.path() / "two";
  const auto a = files({{"checkout/a.py", "1"}, {"one/lib/x.py", "1"}});
  const auto b = files({{"checkout/a.py", "1"}, {"two/lib/x.py", "2"}});
  const FixedCode found = fixed_code({old, a}, {recent, b}, std::nullopt);
  EXPECT_THAT(found.executed, ElementsAre("lib/x.py"));
  EXPECT_THAT(found.shared, IsEmpty());
}

}  // namespace
}  // namespace lockstep
