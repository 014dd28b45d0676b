#include "harness/cli/version.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/watch/lockstep_watch.h"
#include "tests/cli/fake_catalogue.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// The answer of the program in a folder of its own, without a catalogue.
json answer_alone() {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "bin");
  const auto alone = folder.path() / "bin/lockstep";
  std::filesystem::copy_file(kLockstep, alone);
  return json::parse(
      run_shell("unset LOCKSTEP_CATALOGUE; " + alone.string() + " --version --json").out);
}

TEST(VersionAsJson, SaysWhatIsInstalled) {
  const FakeCatalogue catalogue("echo ran");
  const json answer = json::parse(catalogue.lockstep("--version --json").out);
  EXPECT_EQ(answer["schema"], "lockstep.version");
  EXPECT_EQ(answer["version"], "1.0");
  EXPECT_EQ(answer["lockstep"], LOCKSTEP_VERSION);
  EXPECT_TRUE(answer["torch"].is_string());
  EXPECT_TRUE(answer["catalogue_fault"].is_null());
  EXPECT_EQ(answer["backends"][0], "gloo");
  EXPECT_EQ(answer["formats"][0], "console");
  EXPECT_EQ(answer["record"], "1.0");
  EXPECT_EQ(answer["watch_interface"], LOCKSTEP_WATCH_INTERFACE);
  EXPECT_FALSE(answer["build_type"].get<std::string>().empty());
  EXPECT_THAT(answer["compiler"].get<std::string>(), HasSubstr(" "));
  EXPECT_EQ(catalogue.lockstep("-V --json").out, catalogue.lockstep("--version --json").out);
  EXPECT_EQ(catalogue.lockstep("--json --version").out, catalogue.lockstep("--version --json").out);
}

TEST(VersionAsJson, OfAProgramAloneHasNulls) {
  const json answer = answer_alone();
  EXPECT_TRUE(answer["torch"].is_null());
  EXPECT_TRUE(answer["catalogue_fault"].is_null());
  EXPECT_TRUE(answer["watch_interface"].is_null());
  EXPECT_EQ(answer["backends"], json::array());
}

TEST(VersionAsJson, SaysWhyTheCatalogueCannotBeStarted) {
  const json answer = json::parse(
      run_shell("LOCKSTEP_CATALOGUE=/none " + std::string(kLockstep) + " --version --json").out);
  EXPECT_TRUE(answer["torch"].is_null());
  EXPECT_THAT(answer["catalogue_fault"].get<std::string>(), HasSubstr("/none"));
}

TEST(VersionAsJson, NeedsTheQuestion) {
  const Outcome outcome = run_shell(std::string(kLockstep) + " --json");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, HasSubstr("--json requires --version"));
}

}  // namespace
}  // namespace lockstep
