// The devices that hold the parameters of a job.

#include "harness/verdict/device_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> device_notes(const std::vector<DeviceUse>& devices) {
  return lockstep::device_notes(devices, true);
}

TEST(DeviceNotes, AreNoneWhereEachRankHasItsOwnGpu) {
  EXPECT_THAT(device_notes({}), IsEmpty());
  EXPECT_THAT(device_notes({{"cpu", "", 4, {0, 1, 2}, {}}}), IsEmpty());
  EXPECT_THAT(device_notes({{"cuda:0", "GPU-a", 4, {0}, {}}, {"cuda:0", "GPU-b", 4, {1}, {}}}),
              IsEmpty());
  EXPECT_THAT(device_notes({{"cuda:0", "", 4, {0}, {}}, {"cuda:1", "", 4, {1}, {}}}), IsEmpty())
      << "of a torch that does not tell one GPU from another";
}

/// Each rank's model is split over two GPUs of its own, with the head on the CPU of all ranks.
TEST(DeviceNotes, AreNoneOfAModelThatIsSplitAlikeOnAllRanks) {
  EXPECT_THAT(device_notes({{"cuda:0", "GPU-a", 4, {0}, {}},
                            {"cuda:1", "GPU-b", 2, {0}, {"up.bias", "up.weight"}},
                            {"cuda:2", "GPU-c", 4, {1}, {}},
                            {"cuda:3", "GPU-d", 2, {1}, {"up.bias", "up.weight"}},
                            {"cpu", "", 1, {0, 1}, {"head"}}}),
              IsEmpty());
}

/// As stages of a pipeline do, of which the first one has an embedding on the CPU.
TEST(DeviceNotes, AreNoneOfParametersThatOtherRanksMayNotHold) {
  const std::vector<DeviceUse> devices{{"cuda:0", "GPU-a", 4, {0}, {}},
                                       {"cuda:0", "GPU-b", 6, {1}, {}},
                                       {"cpu", "", 1, {0}, {"embed.weight"}}};
  EXPECT_THAT(lockstep::device_notes(devices, false), IsEmpty());
  EXPECT_THAT(device_notes(devices),
              ElementsAre("rank 0 holds embed.weight on cpu, rank 1 on cuda"));
}

/// A device map that is the same on each rank.
TEST(DeviceNotes, TellRanksThatHoldParametersOnOneGpu) {
  EXPECT_THAT(
      device_notes({{"cuda:0", "GPU-a", 16, {0}, {}},
                    {"cuda:0", "GPU-a", 4, {1}, {"blocks.12.a", "blocks.12.b"}},
                    {"cuda:1", "GPU-b", 12, {1}, {}}}),
      ElementsAre("ranks 0,1 hold parameters on one GPU (GPU-a): 16 parameters of rank 0 as "
                  "cuda:0, blocks.12.a and 3 more of rank 1 as cuda:0"));
  EXPECT_THAT(device_notes({{"cuda:0", "GPU-a", 16, {0, 1}, {}}}),
              ElementsAre("ranks 0,1 hold parameters on one GPU (GPU-a): 16 parameters of ranks "
                          "0,1 as cuda:0"));
}

TEST(DeviceNotes, TellParametersThatARankHoldsOnAnotherKindOfDevice) {
  EXPECT_THAT(device_notes({{"cuda:0", "GPU-a", 16, {0}, {}},
                            {"cuda:0", "GPU-b", 14, {1}, {}},
                            {"cpu", "", 2, {1}, {"head.bias", "head.weight"}}}),
              ElementsAre("rank 1 holds head.bias and 1 more on cpu, rank 0 on cuda"));
  EXPECT_THAT(device_notes({{"cuda:0", "GPU-a", 400, {0}, {}},
                            {"cuda:0", "GPU-b", 300, {1}, {}},
                            {"cpu", "", 100, {1}, std::vector<std::string>(64, "a")}}),
              ElementsAre("rank 1 holds a and 99 more on cpu, rank 0 on cuda"))
      << "of many some are listed";
  EXPECT_THAT(device_notes({{"cuda:0", "GPU-a", 16, {0, 2}, {}}, {"cpu", "", 16, {1}, {}}}),
              testing::Contains("ranks hold their parameters on devices of several kinds: rank 1 "
                                "on cpu, ranks 0,2 on cuda"));
}

}  // namespace
}  // namespace lockstep
