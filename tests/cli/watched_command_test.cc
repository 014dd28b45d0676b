// What the command line of a job is allowed to be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/fake_catalogue.h"

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

}  // namespace
}  // namespace lockstep
