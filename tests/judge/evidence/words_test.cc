#include "harness/judge/evidence/words.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(GroupsInWords, TellWhoAgreesWithWhom) {
  EXPECT_EQ(groups_in_words({{0}, {1}}), "ranks 0 and 1 differ");
  EXPECT_EQ(groups_in_words({{0}, {1}, {2}}), "all 3 ranks differ from each other");
  EXPECT_EQ(groups_in_words({{0, 1}, {2}}), "ranks 0,1 agree; 2 differs");
  EXPECT_EQ(groups_in_words({{0, 1}, {2, 3}}), "ranks 0,1 agree; 2,3 agree with each other");
}

}  // namespace
}  // namespace lockstep
