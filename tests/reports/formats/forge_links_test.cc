#include "reports/formats/forge_links.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

RunEnvironment environment_of(const std::string& server, const std::string& repository,
                              const std::string& commit, const std::string& run) {
  RunEnvironment environment;
  environment.variables = {{"GITHUB_REPOSITORY", repository},
                           {"GITHUB_RUN_ID", run},
                           {"GITHUB_SERVER_URL", server},
                           {"GITHUB_SHA", commit}};
  return environment;
}

TEST(ForgeLinks, NameTheCommitAndTheArtifacts) {
  EXPECT_EQ(forge_links(environment_of("https://github.com", "a/b.c", kCommit, "17")),
            "[commit 01234567](https://github.com/a/b.c/commit/" + kCommit +
                ") · [artifacts](https://github.com/a/b.c/actions/runs/17#artifacts)");
  EXPECT_EQ(forge_links(environment_of("https://github.com", "a/b", kCommit, "")),
            "[commit 01234567](https://github.com/a/b/commit/" + kCommit + ")");
}

/// Nothing of them becomes Markdown.
TEST(ForgeLinks, AreNoneOfVariablesThatAreNoAddress) {
  EXPECT_EQ(forge_links(RunEnvironment()), "");
  EXPECT_EQ(forge_links(environment_of("http://github.com", "a/b", kCommit, "17")), "");
  EXPECT_EQ(forge_links(environment_of("javascript:alert(1)", "a/b", kCommit, "17")), "");
  EXPECT_EQ(forge_links(environment_of("https://github.com", "a/b) [x](y", kCommit, "17")), "");
  EXPECT_EQ(forge_links(environment_of("https://github.com", "a/b", "main](x", "1 7")), "");
}

}  // namespace
}  // namespace lockstep
