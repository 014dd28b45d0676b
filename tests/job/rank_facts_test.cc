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

TEST(FactsOfARank, HaveTheLastCalls) {
  const TemporaryFolder folder;
  const auto file = rank_file(folder.path(), 0, kFactsEnding);
  const auto write = [&](const std::string& calls) {
    write_text(file, R"({"world_size": 2, "torch": "2.11.0", "last_calls": )" + calls + "}");
  };
  write("{}");
  EXPECT_FALSE(read_rank_facts(folder.path(), 0)->last_calls);
  write(R"({"step": 4, "without_gradient": ["a"], "calls": [{"operation": "allreduce",
         "place": "train.py:9", "calls": 3, "is_of_gradients": true}]})");
  const LastCalls expected{{}, 4, {"a"}, {{"allreduce", "train.py:9", 3, true}}};
  EXPECT_EQ(read_rank_facts(folder.path(), 0)->last_calls, expected);
  for (const char* const wrong :
       {R"({"step": 4})", R"({"step": "4", "without_gradient": [], "calls": []})",
        R"({"step": 4, "without_gradient": [], "calls": [{}]})", "7"}) {
    write(wrong);
    EXPECT_NE(refusal_of(file, [&] { read_rank_facts(folder.path(), 0); }), "accepted") << wrong;
  }
}

TEST(FactsOfARank, AreRefusedWithDevicesThatAreNone) {
  const TemporaryFolder folder;
  const auto file = rank_file(folder.path(), 0, kFactsEnding);
  for (const char* const wrong :
       {"[7]", "[{}]", R"([{"device": 1, "id": "", "parameters": 1, "names": []}])",
        R"([{"device": "cpu", "id": "", "parameters": "1", "names": []}])",
        R"([{"device": "cpu", "id": "", "parameters": 1, "names": "a"}])"}) {
    write_text(file,
               R"({"world_size": 2, "torch": "2.11.0", "devices": )" + std::string(wrong) + "}");
    EXPECT_NE(refusal_of(file, [&] { read_rank_facts(folder.path(), 0); }), "accepted") << wrong;
  }
}

}  // namespace
}  // namespace lockstep
