#include "reports/base/installed_path.h"

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

TEST(InstalledPath, IsInThePrefixOfTheProgramElseTheOther) {
  const TemporaryFolder prefix;
  const fs::path tables = "share/lockstep/published";
  for (const char* program : {"bin/lockstep", "libexec/lockstep/lockstep-catalogue"}) {
    EXPECT_EQ(installed_path(prefix.path() / program, tables, "source"), "source");
  }
  fs::create_directories(prefix.path() / tables);
  for (const char* program : {"bin/lockstep", "libexec/lockstep/lockstep-catalogue"}) {
    EXPECT_EQ(installed_path(prefix.path() / program, tables, "source"), prefix.path() / tables);
  }
  EXPECT_EQ(installed_path("", tables, "source"), "source") << "no /proc";
  // The folder above a program that was copied alone may be anybody's.
  for (const char* program : {"lockstep", "tools/lockstep", "libexec/lockstep", "a/b/lockstep",
                              "lockstep/lockstep", "bin/sub/lockstep"}) {
    EXPECT_EQ(installed_path(prefix.path() / program, tables, "source"), "source") << program;
  }
}

}  // namespace
}  // namespace lockstep
