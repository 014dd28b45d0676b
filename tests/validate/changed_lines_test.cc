#include "harness/validate/changed_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "reports/base/regular_file.h"
#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class ChangedLinesTest : public testing::Test {
 protected:
  ChangedLinesTest() {
    for (const fs::path& top : {before_.top, after_.top}) fs::create_directories(top);
    code_.executed = {"a.py"};
  }

  LineChanges changes(const std::string& old, const std::string& recent) const {
    write_text(before_.top / "a.py", old);
    write_text(after_.top / "a.py", recent);
    return changed_lines({before_, {}}, {after_, {}}, code_, folder_.path());
  }

  static CodeState state(const fs::path& top) {
    CodeState state;
    state.top = top;
    return state;
  }

  TemporaryFolder folder_;
  CodeState before_ = state(folder_.path() / "one"), after_ = state(folder_.path() / "two");
  FixedCode code_;
};

TEST_F(ChangedLinesTest, AreThoseOfBothStates) {
  const LineChanges found = changes("a\nb\nc\nd\n", "a\nx\ny\nc\n");
  EXPECT_THAT(found.removed.at((before_.top / "a.py").string()), ElementsAre(2, 4));
  EXPECT_THAT(found.added.at((after_.top / "a.py").string()), ElementsAre(2, 3));
}

TEST_F(ChangedLinesTest, AreOfOneStateWhereLinesWereOnlyAddedOrRemoved) {
  EXPECT_THAT(changes("a\nb\n", "a\n").added, IsEmpty());
  EXPECT_THAT(changes("a\n", "a\nb\n").removed, IsEmpty());
}

TEST_F(ChangedLinesTest, AreNotReadFromLinesThatLookLikeTheirMarks) {
  const LineChanges found = changes("a\n", "a\n@@ -7,2 +9,2 @@\n");
  EXPECT_THAT(found.added.at((after_.top / "a.py").string()), ElementsAre(2));
}

TEST_F(ChangedLinesTest, AreOfSourcesOfPythonThatBothStatesHave) {
  code_.executed = {"a.so", "b.py", "a.py"};
  write_text(after_.top / "b.py", "new\n");
  for (const fs::path& top : {before_.top, after_.top}) write_text(top / "a.so", top.string());
  EXPECT_EQ(changes("a\n", "b\n").added.size(), 1U);
}

TEST_F(ChangedLinesTest, AreToldByRowsThatNobodyExecuted) {
  JobExecution execution;
  const std::string file = (after_.top / "a.py").string();
  execution.lines[file] = {{3, 4, 5, 9, 12}, {9}};
  const ChangedLines lines = changed_lines_in(execution, after_);
  EXPECT_EQ(lines.count, 5);
  EXPECT_EQ(lines.executed, 1);
  EXPECT_THAT(lines.missing, ElementsAre("a.py:3-5", "a.py:12"));
}

TEST_F(ChangedLinesTest, AreWrittenForTheHook) {
  const fs::path path = folder_.path() / "lines.json";
  write_lines(path, {{"/x/a.py", {2, 3}}});
  EXPECT_EQ(read_text(path, 1000), R"({"/x/a.py":[2,3]})");
}

}  // namespace
}  // namespace lockstep
