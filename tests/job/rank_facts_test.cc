#include "harness/job/rank_facts.h"

#include <gtest/gtest.h>

#include <string>

#include "harness/record/rank_files.h"
#include "tests/command.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

/// Without a stack frame for each level.
TEST(FactsOfARank, AreRefusedIfTheyAreNestedInManyLevels) {
  const std::string lists = std::string(400'000, '[') + std::string(400'000, ']');
  for (const char* name : {"collectives", "groups", "precisions", "another"}) {
    const TemporaryFolder folder;
    const auto file = rank_file(folder.path(), 0, kFactsEnding);
    write_text(file, R"({"world_size": 2, "torch": "2.11.0", ")" + std::string(name) +
                         "\": " + lists + "}");
    EXPECT_NE(refusal_of(file, [&] { read_rank_facts(folder.path(), 0); }), "accepted") << name;
  }
}

}  // namespace
}  // namespace lockstep
