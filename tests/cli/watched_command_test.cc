// What the command line of a job is allowed to be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "reports/base/shell_word.h"
#include "tests/cli/fake_catalogue.h"
#include "tests/secret_forms.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

/// Configurations in JSON are given as one argument.
TEST(WatchedCommand, MayHaveLongArguments) {
  const TemporaryFolder folder;
  const std::string out = folder.path() / "run";
  for (const std::string argument : {"token=", "x=", "{\"a\": \""}) {
    const Outcome watched =
        run_shell(std::string("rm -rf ") + out + "; " + kLockstep + " watch --out " + out +
                  " -- true '" + argument + std::string(100'000, 'a') + "'");
    EXPECT_THAT(watched.err, HasSubstr("NOTHING OBSERVED"));
    EXPECT_EQ(watched.status, 3);
  }
}

/// What ranks wrote is then unknown, so it is not said that they wrote nothing.
TEST(WatchedCommand, CannotTellWhatWasInAFolderThatIsGone) {
  const TemporaryFolder folder;
  const std::string out = folder.path() / "run";
  const std::pair<std::string, std::string> harms[] = {
      {"rm -r " + out + "/job", "what its ranks wrote cannot be read: " + out + "/job: No such"},
      {"rm -r " + out, "Cannot write " + out + "/record.json: No such"}};
  for (const auto& [harm, why] : harms) {
    const Outcome watched = run_shell(std::string("rm -rf ") + out + "; " + kLockstep +
                                      " watch --out " + out + " -- sh -c '" + harm + "'");
    EXPECT_THAT(unwrapped(watched.err), HasSubstr("UNDECIDED: " + why));
    EXPECT_EQ(watched.status, 2);
  }
}

/// Neither in its files nor in what it prints.
TEST(WatchedCommand, LeavesNoSecretAnywhere) {
  const TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "run";
  std::string words = "--api-key '" + std::string(kSecret) + "' ";
  for (const std::string& form : secret_forms()) words += shell_word(form) + " ";
  const Outcome watched =
      run_shell(std::string(kLockstep) + " watch --out " + out.string() + " --label " +
                shell_word("--token " + std::string(kSecret)) +
                " --format csv,github,html,json,junit,keys,markdown,summary -- true " + words);
  EXPECT_FALSE(has_secret(watched.out + watched.err)) << watched.out << watched.err;
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_FALSE(has_secret(text_of(entry.path()))) << entry.path();
  }
  EXPECT_GE(files, 3);
}

}  // namespace
}  // namespace lockstep
