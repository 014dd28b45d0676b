// Who may read the files of a run.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "reports/base/private_files.h"
#include "tests/cli/fake_catalogue.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

unsigned mode_of(const fs::path& path) {
  struct stat status = {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777U;
}

class Modes : public testing::Test {
 protected:
  Modes() { fs::permissions(folder_.path(), fs::perms(0755)); }

  fs::path out() const { return folder_.path() / "new/run"; }
  Outcome watched(const std::string& umask, const std::string& options) const {
    return run_shell(fmt::format("umask {}; {} watch --out {} {} -- true", umask, kLockstep,
                                 out().string(), options));
  }
  /// Every file and folder of the run.
  void expect_modes(unsigned folders, unsigned files) const {
    EXPECT_EQ(mode_of(out()), folders);
    int seen = 0;
    for (const auto& entry : fs::recursive_directory_iterator(out())) {
      if (entry.is_symlink()) continue;
      EXPECT_EQ(mode_of(entry.path()), entry.is_directory() ? folders : files) << entry.path();
      ++seen;
    }
    EXPECT_GE(seen, 3);
  }
  fs::path folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(Modes, AreThoseOfTheOwnerAloneWhateverTheUmaskAllows) {
  for (const char* umask : {"000", "022", "077"}) {
    watched(umask, "--format html,json,keys");
    expect_modes(0700, 0600);
    fs::remove_all(out());
  }
}

TEST_F(Modes, LetTheGroupReadIfItIsAskedFor) {
  for (const char* umask : {"000", "022", "027"}) {
    watched(umask, "--group-readable --format html,json,keys");
    expect_modes(0750, 0640);
    fs::remove_all(out());
  }
}

TEST_F(Modes, StayAsStrictAsTheUmask) {
  watched("077", "--group-readable --format html");
  expect_modes(0700, 0600);
}

/// Later reports, too.
TEST_F(Modes, AreThoseOfTheRunForWhatIsWrittenLater) {
  watched("000", "--group-readable");
  run_shell(fmt::format("umask 000; {} report {} --format html,json", kLockstep, out().string()));
  expect_modes(0750, 0640);
}

TEST_F(Modes, OfAFolderThatIsThereAreNarrowed) {
  for (const auto& [options, given, folders, files] : {std::tuple("", 0777U, 0700U, 0600U),
                                                       {"", 0755U, 0700U, 0600U},
                                                       {"", 0700U, 0700U, 0600U},
                                                       {"--group-readable", 0777U, 0750U, 0640U},
                                                       {"--group-readable", 0700U, 0700U, 0600U}}) {
    fs::create_directories(out());
    fs::permissions(out(), fs::perms(given));
    watched("000", options);
    expect_modes(folders, files);
    fs::remove_all(out());
  }
}

TEST_F(Modes, OfTheFoldersAboveAreTheUsualOnes) {
  watched("022", "");
  EXPECT_EQ(mode_of(folder() / "new"), 0755U);
}

TEST_F(Modes, OfADefaultFolderAreThoseOfTheOwnerAlone) {
  run_shell(fmt::format("cd {}; umask 000; {} watch -- true", folder().string(), kLockstep));
  EXPECT_EQ(mode_of(fs::canonical(folder() / "runs/latest")), 0700U);
  EXPECT_EQ(mode_of(fs::canonical(folder() / "runs/latest") / "record.json"), 0600U);
  EXPECT_EQ(mode_of(folder() / "runs"), 0777U);
}

TEST_F(Modes, OfAPackAreThoseOfTheOwnerAlone) {
  watched("000", "");
  const fs::path pack = folder() / "pack.tar.gz";
  run_shell(
      fmt::format("umask 000; {} pack {} --out {}", kLockstep, out().string(), pack.string()));
  EXPECT_EQ(mode_of(pack), 0600U);
}

}  // namespace
}  // namespace lockstep
