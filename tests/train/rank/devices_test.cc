#include "harness/train/rank/devices.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "harness/launch/gpus.h"
#include "harness/sim/virtual_devices.h"
#include "harness/train/rank/device_memory.h"
#include "harness/train/rank/rank.h"
#include "reports/base/error.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// A rank of a cell on `device`, in its own folder. Every test is a separate process under ctest,
/// because a process opens virtual devices only once.
class RankOn {
 public:
  explicit RankOn(DeviceKind device, Role role = Role::fixed) {
    Cell cell;
    cell.role = role;
    cell.world_size = 2;
    cell.device = device;
    rank_.emplace(cell, RankPlacement{}, folder_.path(), GroupOptions{.device = device});
  }

  std::vector<at::Device> open(const NodeDevices& options) { return open_devices(*rank_, options); }
  Rank& rank() { return *rank_; }
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }

 private:
  TemporaryFolder folder_;
  std::optional<Rank> rank_;
};

at::Tensor bytes_on(at::Device device, std::int64_t count) {
  return at::empty({count}, at::TensorOptions(at::kByte).device(device));
}

std::string refusal_of_gpus(RankOn& rank) {
  try {
    rank.open({.count = 2});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    return error.what();
  }
  return "accepted";
}

TEST(Devices, OfTheCpuAreTheCpuSoManyTimes) {
  EXPECT_THAT(RankOn(DeviceKind::cpu).open({.count = 3}),
              ElementsAre(at::kCPU, at::kCPU, at::kCPU));
  EXPECT_FALSE(has_virtual_devices());
}

TEST(Devices, OfAReferenceAreItsOwnOneSoManyTimesWithoutALimit) {
  RankOn rank(DeviceKind::sim, Role::reference);
  EXPECT_THAT(rank.open({.count = 2, .capacity = 8}),
              ElementsAre(virtual_device(0), virtual_device(0)));
  EXPECT_EQ(rank.rank().device(), virtual_device(0));
  EXPECT_EQ(virtual_memory(0).capacity, std::nullopt);
}

TEST(DeviceOfARank, IsTheCpuInACellOnTheCpu) {
  RankOn rank(DeviceKind::cpu);
  EXPECT_EQ(rank.rank().device(), at::Device(at::kCPU));
  EXPECT_EQ(rank.rank().input(bytes_on(at::kCPU, 2)).device(), at::Device(at::kCPU));
  EXPECT_FALSE(has_virtual_devices());
}

TEST(DeviceOfARank, HasItsInputs) {
  RankOn rank(DeviceKind::sim);
  EXPECT_EQ(rank.rank().input(bytes_on(at::kCPU, 2)).device(), virtual_device(0));
  EXPECT_EQ(rank.rank().device(), virtual_device(0));
}

TEST(DeviceOfARank, IsTheCpuWhereTheBodyPlacesItsModel) {
  RankOn rank(DeviceKind::sim);
  rank.open({.count = 2});
  EXPECT_EQ(rank.rank().device(), at::Device(at::kCPU));
  EXPECT_EQ(rank.rank().input(bytes_on(at::kCPU, 2)).device(), at::Device(at::kCPU));
}

TEST(DeviceMemory, CountsWhatIsRequestedBeyondWhatWasThere) {
  RankOn rank(DeviceKind::sim);
  const at::Device device = rank.rank().device();
  const at::Tensor before = bytes_on(device, 1000);
  EXPECT_EQ(allocated_bytes(device), 1000);
  const DeviceMemory memory(device);
  EXPECT_EQ(memory.peak(), 0);
  { const at::Tensor some = bytes_on(device, 24), more = bytes_on(device, 10); }
  const at::Tensor kept = bytes_on(device, 5);
  EXPECT_EQ(memory.peak(), 34);
  EXPECT_EQ(allocated_bytes(device), 1005);
}

TEST(DeviceMemory, OfTheCpuIsThatOfActivations) {
  const DeviceMemory memory(at::kCPU);
  { const at::Tensor some = bytes_on(at::kCPU, 24); }
  EXPECT_EQ(memory.peak(), 24);
  EXPECT_EQ(allocated_bytes(at::kCPU), 0) << "nobody counts there";
}

TEST(VirtualDevicesOfARank, AreAsManyAsItAskedFor) {
  RankOn rank(DeviceKind::sim);
  const auto devices = rank.open({.count = 3});
  EXPECT_THAT(devices, ElementsAre(virtual_device(0), virtual_device(1), virtual_device(2)));
  EXPECT_EQ(bytes_on(devices[2], 8).device(), devices[2]);
  EXPECT_THROW(bytes_on(virtual_device(3), 8), c10::Error);
}

TEST(VirtualDevicesOfARank, HaveNoLedgerWithoutACapacity) {
  RankOn rank(DeviceKind::sim);
  rank.open({.count = 2});
  EXPECT_FALSE(virtual_memory(0).capacity);
  EXPECT_FALSE(std::filesystem::exists(rank.file("devices-0.bin")));
}

TEST(VirtualDevicesOfARank, HaveACapacityThatItsNodeUsesUp) {
  RankOn rank(DeviceKind::sim);
  const auto devices = rank.open({.count = 2, .capacity = 1 << 16, .node = 1});
  EXPECT_TRUE(std::filesystem::exists(rank.file("devices-1.bin")));
  EXPECT_EQ(virtual_memory(1).capacity, 1 << 16);
  const at::Tensor most = bytes_on(devices[1], 1 << 15);
  EXPECT_GE(virtual_memory(1).used, 1 << 15);
  EXPECT_THROW(bytes_on(devices[1], 1 << 16), c10::Error);
}

TEST(CurrentDevice, IsTheOneThatWasSet) {
  RankOn rank(DeviceKind::sim);
  const auto devices = rank.open({.count = 2});
  EXPECT_EQ(current_device(devices[1]), devices[0]);
  set_current_device(devices[1]);
  EXPECT_EQ(current_device(devices[0]), devices[1]);
  EXPECT_EQ(bytes_on(at::Device(devices[0].type()), 8).device(), devices[1]);
}

TEST(CurrentDevice, CannotBeOneThatIsNotThere) {
  RankOn rank(DeviceKind::sim);
  rank.open({.count = 2});
  EXPECT_THROW(set_current_device(virtual_device(2)), c10::Error);
  EXPECT_EQ(current_device(virtual_device(0)), virtual_device(0));
}

TEST(CurrentDevice, OfTheCpuIsTheCpu) {
  set_current_device(at::kCPU);
  EXPECT_EQ(current_device(at::kCPU), at::Device(at::kCPU));
}

TEST(GpusOfARank, AreRefusedInASentenceWhereThereIsNone) {
  if (!find_gpus(std::chrono::seconds(20)).names.empty()) GTEST_SKIP() << "there is one here";
  RankOn rank(DeviceKind::cuda);
  const std::string refusal = refusal_of_gpus(rank);
  EXPECT_THAT(refusal, AllOf(HasSubstr("GPUs cannot be used: "), HasSubstr("Remedy: ")));
}

TEST(GpusOfARank, AreNoMoreThanItAskedFor) {
  if (!find_gpus(std::chrono::seconds(20)).names.empty()) GTEST_SKIP() << "there is one here";
  const auto shown_after = [](const char* given) {
    given ? ::setenv("CUDA_VISIBLE_DEVICES", given, 1) : ::unsetenv("CUDA_VISIBLE_DEVICES");
    RankOn rank(DeviceKind::cuda);
    refusal_of_gpus(rank);
    return std::string(std::getenv("CUDA_VISIBLE_DEVICES"));
  };
  EXPECT_EQ(shown_after(nullptr), "0,1");
  EXPECT_EQ(shown_after("3,5,7"), "3,5");
  EXPECT_EQ(shown_after("3,5"), "3,5");
  EXPECT_EQ(shown_after("GPU-1"), "GPU-1");
  EXPECT_EQ(shown_after(""), "") << "none is to be seen";
}

}  // namespace
}  // namespace lockstep
