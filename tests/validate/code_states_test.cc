#include "harness/validate/code_states.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "tests/command.h"
#include "tests/full_disk.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A repository with two commits, and the working folder in one of its folders.
class CodeStatesTest : public testing::Test {
 protected:
  CodeStatesTest() : before_(fs::current_path()) {
    fs::create_directories(top() / "sub");
    git("init -q -b main");
    write_text(top() / "sub/a.py", "1");
    write_text(top() / ".gitignore", "data\n");
    git("add -A && git commit -qm one && git tag v1");
    write_text(top() / "sub/a.py", "2");
    write_text(top() / "b.md", "2");
    git("add -A && git commit -qm two && git tag v2");
    fs::current_path(top() / "sub");
  }
  ~CodeStatesTest() override { fs::current_path(before_); }

  fs::path top() const { return folder_.path() / "repository"; }

  std::string git(const std::string& words) const {
    const Outcome outcome = run_shell(
        fmt::format("cd {} && export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a "
                    "GIT_COMMITTER_EMAIL=a@b && git {}",
                    top().string(), words));
    EXPECT_EQ(outcome.status, 0) << words << outcome.err;
    return outcome.out;
  }

  /// Everything that a user sees of the repository.
  std::string seen() const {
    return git("status --short --ignored && git worktree list && git branch -a && git stash list") +
           run_shell("cd " + top().string() + " && find . -path ./.git -prune -o -print | sort")
               .out;
  }

 private:
  TemporaryFolder folder_;
  fs::path before_;
};

TEST_F(CodeStatesTest, OfCommitsLieInFoldersOfTheirOwnAndLeaveNothing) {
  write_text(top() / "sub/a.py", "dirty");
  write_text(top() / "new", "untracked");
  const std::string before = seen();
  fs::path folder;
  {
    CodeStates states({});
    const CodeState one = states.open("v1"), two = states.open("v2");
    EXPECT_EQ(text_of(one.folder / "a.py"), "1");
    EXPECT_EQ(text_of(two.folder / "a.py"), "2");
    EXPECT_EQ(one.folder, one.top / "sub");
    EXPECT_THAT(one.title, HasSubstr("v1 ("));
    EXPECT_THAT(states.changed(one, two).value(), ElementsAre("b.md", "sub/a.py"));
    EXPECT_THAT(states.changed(one, one).value(), IsEmpty());
    EXPECT_THAT(one.sources, ElementsAre(one.top.string(), fs::canonical(top()).string()));
    folder = one.top.parent_path();
  }
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_EQ(seen(), before);
}

TEST_F(CodeStatesTest, HaveTheFilesBroughtWithThem) {
  fs::create_directories(top() / "data");
  write_text(top() / "data/batch", "samples");
  CodeStates states({{"../data"}, ""});
  EXPECT_EQ(text_of(states.open("v1").top / "data/batch"), "samples");
  CodeStates none({{"../../elsewhere"}, ""});
  EXPECT_THAT(refusal_of({}, [&] { none.open("v1"); }), HasSubstr("--with"));
}

TEST_F(CodeStatesTest, MayBeFolders) {
  CodeStates states({});
  const CodeState here = states.open(".");
  EXPECT_EQ(here.folder, fs::canonical(top() / "sub"));
  EXPECT_EQ(here.commit, "");
  EXPECT_THAT(here.sources, ElementsAre(fs::canonical(top()).string()));
  EXPECT_FALSE(states.changed(here, states.open("v1")));
}

TEST_F(CodeStatesTest, MayBeTheInterpreterOfAnEnvironment) {
  const fs::path bin = top().parent_path() / "env/bin";
  fs::create_directories(bin);
  fs::create_symlink("/bin/sh", bin / "python3");
  CodeStates states({});
  const CodeState state = states.open((bin / "python3").string());
  EXPECT_EQ(state.environment, bin.parent_path());
  EXPECT_EQ(state.folder, fs::canonical(top() / "sub"));
  EXPECT_TRUE(state.variables[0].second.starts_with(bin.string() + ":"));
}

TEST_F(CodeStatesTest, RefuseOthersInASentence) {
  CodeStates states({});
  for (const char* name : {"v3", "--help", "nowhere/", "HEAD~7"}) {
    EXPECT_THAT(refusal_of({}, [&] { states.open(name); }),
                HasSubstr("a commit of this repository"))
        << name;
  }
  git("checkout -q --orphan other && git rm -rfq . && git commit -q --allow-empty -m empty && "
      "git checkout -q main");
  EXPECT_THAT(refusal_of({}, [&] { states.open("other"); }),
              HasSubstr("has the working folder, sub"));
}

TEST_F(CodeStatesTest, HaveTheirSubmodulesAsTheyWereThen) {
  // Else git takes no submodule from a folder.
  ::setenv("GIT_CONFIG_COUNT", "1", 1);
  ::setenv("GIT_CONFIG_KEY_0", "protocol.file.allow", 1);
  ::setenv("GIT_CONFIG_VALUE_0", "always", 1);
  const std::string part = "../part";
  git("init -q -b main " + part + " && echo 1 > " + part + "/c.py && git -C " + part +
      " add -A && git -C " + part + " commit -qm one && git submodule --quiet add file://$PWD/" +
      part + " part && git commit -qm part && git tag v3");
  git("-C part pull -q && echo 2 > " + part + "/c.py && git -C " + part +
      " commit -qam two && git -C part pull -q && git commit -qam newer && git tag v4");
  const std::string before = seen();
  {
    CodeStates states({});
    const CodeState one = states.open("v3"), two = states.open("v4");
    EXPECT_EQ(text_of(one.top / "part/c.py"), "1\n");
    EXPECT_EQ(text_of(two.top / "part/c.py"), "2\n");
    EXPECT_THAT(states.changed(one, two).value(), ElementsAre("part"));
  }
  EXPECT_EQ(seen(), before);
  ::setenv("GIT_CONFIG_VALUE_0", "never", 1);
  CodeStates states({});
  EXPECT_THAT(refusal_of({}, [&] { states.open("v3"); }), HasSubstr("cannot be checked out: "));
  for (const char* name : {"GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"}) {
    ::unsetenv(name);
  }
}

TEST_F(CodeStatesTest, OfAShallowCloneAreItsCommits) {
  const fs::path shallow = top().parent_path() / "shallow";
  ASSERT_EQ(run_shell(fmt::format("git clone -q --depth 1 file://{} {}", top().string(),
                                  shallow.string()))
                .status,
            0);
  fs::current_path(shallow / "sub");
  CodeStates states({});
  EXPECT_EQ(text_of(states.open("HEAD").folder / "a.py"), "2");
  EXPECT_THAT(refusal_of({}, [&] { states.open("v1"); }),
              HasSubstr("a commit that this shallow clone has (git fetch --unshallow"));
}

TEST_F(CodeStatesTest, ThatCannotBeCheckedOutAreToldAndLeaveNothing) {
  const std::string before = seen();
  write_text(top() / ".git/worktrees", "no folder");
  {
    CodeStates states({});
    EXPECT_THAT(refusal_of({}, [&] { states.open("v1"); }), HasSubstr("cannot be checked out: "));
  }
  fs::remove(top() / ".git/worktrees");
  EXPECT_EQ(seen(), before);
}

TEST_F(CodeStatesTest, AreNotMadeOnAFullDisk) {
  constexpr std::size_t kFile = 1 << 20, kRoom = 64 << 10;
  write_text(top() / "large.bin", std::string(kFile, 'x'));
  git("add -A && git commit -qm large && git tag large");
  write_text(top() / "data", std::string(kFile, 'x'));
  const std::string before = seen();
  {
    const FullDisk full(kRoom);
    CodeStates states({{"../data"}, ""});
    EXPECT_THAT(refusal_of({}, [&] { states.open("large"); }),
                HasSubstr("cannot be checked out: "));
    EXPECT_THAT(refusal_of({}, [&] { states.open("v1"); }),
                HasSubstr("../data cannot be brought into a state: "));
  }
  EXPECT_EQ(seen(), before);
}

TEST_F(CodeStatesTest, AreBuiltInEnvironmentsOfTheirOwn) {
  CodeStates states({{}, "echo $VIRTUAL_ENV > built && cat a.py >> built"});
  const CodeState one = states.open("v1"), two = states.open("v2");
  EXPECT_EQ(text_of(one.folder / "built"), one.environment.string() + "\n1");
  EXPECT_NE(one.environment, two.environment);
  CodeStates broken({{}, "echo no compiler; exit 3"});
  EXPECT_THAT(refusal_of({}, [&] { broken.open("v1"); }), HasSubstr("(status 3): no compiler"));
}

TEST_F(CodeStatesTest, RunNoHookOfTheRepository) {
  write_text(top() / ".git/hooks/post-checkout",
             "#!/bin/sh\ntouch " + top().string() + "/hooked\n");
  fs::permissions(top() / ".git/hooks/post-checkout", fs::perms::owner_all);
  CodeStates states({});
  states.open("v1");
  EXPECT_FALSE(fs::exists(top() / "hooked"));
}

}  // namespace
}  // namespace lockstep
