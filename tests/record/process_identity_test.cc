#include "harness/record/process_identity.h"

#include <gtest/gtest.h>

#include "harness/record/collective_log.h"

namespace lockstep {
namespace {

Cell cell(Role role) {
  Cell result;
  result.scenario = "loss-on-unwrapped-module";
  result.variant = role == Role::reference ? "reference" : "bypass";
  result.role = role;
  result.world_size = 2;
  result.steps = 5;
  return result;
}

TEST(ProcessIdentity, NamesTheRankAndItsCell) {
  EXPECT_EQ(process_identity(cell(Role::buggy), 1),
            "rank 1 of loss-on-unwrapped-module/bypass/w2 with seed 0 and 5 steps");
}

TEST(ProcessIdentity, TellsAReferenceFromItsPerturbedOnes) {
  EXPECT_EQ(process_identity(cell(Role::reference), 0),
            "the reference of loss-on-unwrapped-module/reference/w2 with seed 0 and 5 steps");
  EXPECT_EQ(
      process_identity(cell(Role::reference), 3),
      "perturbed reference 3 of loss-on-unwrapped-module/reference/w2 with seed 0 and 5 steps");
}

TEST(ProcessIdentity, IsAnotherInAnotherCell) {
  const std::string here = process_identity(cell(Role::buggy), 0);
  Cell other = cell(Role::buggy);
  other.axes = {{"tiles", "4"}};
  EXPECT_NE(process_identity(other, 0), here);
  other = cell(Role::buggy);
  other.seed = 1;
  EXPECT_NE(process_identity(other, 0), here);
  other = cell(Role::buggy);
  other.repetition = 2;
  EXPECT_NE(process_identity(other, 0), here);
}

TEST(ProcessIdentity, IsCutBetweenCharacters) {
  for (const char* padding : {"", "x", "xx"}) {
    Cell long_one = cell(Role::buggy);
    std::string value = padding;
    for (int i = 0; i < 200; ++i) value += "\xe2\x82\xac";  // a three-byte character
    long_one.axes = {{"axis", value}};
    const std::string identity = process_identity(long_one, 0);
    EXPECT_GT(identity.size(), kLongestProcessIdentity - 3);
    EXPECT_LE(identity.size(), kLongestProcessIdentity);
    EXPECT_TRUE(identity.ends_with("\xe2\x82\xac"));
  }
}

TEST(ProcessIdentity, IsOneLineThatALogHasRoomFor) {
  Cell long_one = cell(Role::buggy);
  long_one.axes = {{"axis", "a\nb" + std::string(1000, 'x')}};
  const std::string identity = process_identity(long_one, 0);
  EXPECT_EQ(identity.size(), kLongestProcessIdentity);
  EXPECT_EQ(identity.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace lockstep
