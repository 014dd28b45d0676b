#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/sim/virtual_devices.h"
#include "reports/base/error.h"
#include "tests/full_disk.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMiB = 1 << 20;

at::Tensor device_bytes(std::int64_t count, int device = 0) {
  return at::empty({count}, at::device(virtual_device(device)).dtype(at::kByte));
}

/// The out-of-memory error; empty if there is none.
std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  return {};
}

std::int64_t live() { return virtual_memory(0).live; }

/// Two devices of 4 MiB each, used by all tests except those of ledgers. ctest runs each test in a
/// separate process.
class VirtualMemoryTest : public testing::Test {
 protected:
  VirtualMemoryTest() {
    if (!has_virtual_devices()) open_virtual_devices({.count = 2, .capacity = 4 * kMiB});
    reset_peak_virtual_memory();
  }
  ~VirtualMemoryTest() override {
    EXPECT_EQ(virtual_memory(0).live, 0);
    EXPECT_EQ(virtual_memory(0).used, 0);
    EXPECT_EQ(virtual_memory(1).live, 0);
  }
};

TEST_F(VirtualMemoryTest, RefusesWhatDoesNotFitInTheMannerOfCuda) {
  const at::Tensor three = device_bytes(3 * kMiB);
  const std::string text = refusal_of([] { device_bytes(2 * kMiB); });
  EXPECT_THAT(text, HasSubstr("sim:0 out of memory. Tried to allocate 2.00 MiB. sim:0 has a total "
                              "capacity of 4.00 MiB of which 1.00 MiB is free."));
  EXPECT_THAT(text, HasSubstr("2097152 wanted, 1048576 free, 4194304 capacity"));
  EXPECT_EQ(live(), 3 * kMiB);
  EXPECT_EQ(refusal_of([] { device_bytes(kMiB); }), "") << "exactly what is left";
  EXPECT_EQ(refusal_of([] { device_bytes(2 * kMiB, 1); }), "") << "another device";
}

TEST_F(VirtualMemoryTest, ChargesTheResultsOfKernels) {
  const at::Tensor three = device_bytes(3 * kMiB);
  EXPECT_THAT(refusal_of([&] { three + 1; }), HasSubstr("3145728 wanted, 1048576 free"));
  EXPECT_EQ(live(), 3 * kMiB);
  const at::Tensor sum = three.narrow(0, 0, 1000) + 1;
  EXPECT_EQ(live(), 3 * kMiB + 1000);
  EXPECT_EQ(virtual_memory(0).peak, 3 * kMiB + 1000);
}

TEST_F(VirtualMemoryTest, ChargesNoViewAndNoAlias) {
  const at::Tensor tensor = device_bytes(1000);
  const at::Tensor view = tensor.view({10, 100}).t().narrow(0, 5, 10);
  const at::Tensor alias = cpu_alias(tensor);
  const at::Tensor same = tensor.detach();
  EXPECT_EQ(live(), 1000);
  EXPECT_EQ(virtual_memory(0).peak, 1000);
}

TEST_F(VirtualMemoryTest, KeepsChargedWhatAnAliasKeepsAlive) {
  at::Tensor tensor = device_bytes(1000);
  at::Tensor alias = cpu_alias(tensor);
  tensor.reset();
  EXPECT_EQ(live(), 1000);
  alias.reset();
  EXPECT_EQ(live(), 0);
}

TEST_F(VirtualMemoryTest, FollowsStoragesThatGrow) {
  at::Tensor tensor = device_bytes(100);
  tensor.fill_(7);
  tensor.resize_({kMiB});
  EXPECT_EQ(live(), kMiB);
  EXPECT_EQ(tensor[99].item<int>(), 7);
  EXPECT_THAT(refusal_of([&] { tensor.resize_({4 * kMiB}); }), HasSubstr("4194304 wanted"));
  EXPECT_EQ(tensor.numel(), kMiB) << "left as it was";
  EXPECT_EQ(live(), kMiB);
  tensor.resize_({10});
  EXPECT_EQ(live(), kMiB) << "as everywhere in torch, a storage does not shrink";
  at::Tensor result = device_bytes(0);
  at::cat_out(result, {tensor, tensor});
  EXPECT_EQ(live(), kMiB + 20) << "grown by a kernel";
  tensor.set_(result);
  EXPECT_EQ(live(), 20) << "the storage before is gone";
  tensor.set_();
  EXPECT_EQ(live(), 20);
}

TEST_F(VirtualMemoryTest, HoldsStoragesOfNoBytes) {
  const at::Tensor nothing = device_bytes(0);
  const at::Tensor more = at::cat({nothing, nothing});
  EXPECT_EQ((more + 1).numel(), 0);
  EXPECT_EQ(more.cpu().numel(), 0);
  EXPECT_EQ(live(), 0);
}

TEST_F(VirtualMemoryTest, CountsWhatAnotherThreadFrees) {
  at::Tensor tensor = device_bytes(1000);
  at::Tensor sum = tensor + 1;
  std::thread([moved = std::vector<at::Tensor>{std::move(tensor), std::move(sum)}]() mutable {
    moved.clear();
  }).join();
  EXPECT_EQ(live(), 0);
}

TEST_F(VirtualMemoryTest, IsWholeAgainAfterARefusalInABackward) {
  {
    const at::Tensor leaf =
        at::ones({256, 256}, at::device(virtual_device(0))).requires_grad_();  // 256 KiB
    at::Tensor product = leaf;
    while (live() < 3 * kMiB) product = product.mm(leaf);
    const at::Tensor rest = device_bytes(4 * kMiB - live() - 100 * 1024);
    EXPECT_THAT(refusal_of([&] { product.backward(at::ones_like(product)); }),
                HasSubstr("sim:0 out of memory"));
  }
  EXPECT_EQ(live(), 0);
}

TEST_F(VirtualMemoryTest, MovesWithSetData) {
  at::Tensor parameter = at::ones({100});
  parameter.set_data(parameter.to(virtual_device(0)));
  EXPECT_EQ(live(), 400);
  parameter.set_data(parameter.to(virtual_device(1)));
  EXPECT_EQ(live(), 0);
  EXPECT_EQ(virtual_memory(1).live, 400);
}

/// Runs `body` in a separate process; returns its status, 70 if it throws.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    int status = 70;
    try {
      status = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(status);
  }
  int status() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }

 private:
  pid_t pid_;
};

/// A pipe between two processes: one reports its progress, the other waits for it.
class Signal {
 public:
  Signal() { EXPECT_EQ(::pipe(exits_), 0); }
  void give() const { EXPECT_EQ(::write(exits_[1], "x", 1), 1); }
  void await() const {
    char byte = 0;
    EXPECT_EQ(::read(exits_[0], &byte, 1), 1);
  }

 private:
  int exits_[2] = {};
};

class VirtualLedger : public testing::Test {
 protected:
  VirtualDeviceOptions options() const {
    return {.count = 2, .capacity = 4 * kMiB, .ledger = folder_.path() / "ledger"};
  }
  TemporaryFolder folder_;
};

TEST_F(VirtualLedger, IsSharedByProcesses) {
  const Signal allocated, refused;
  const Child first([&] {
    open_virtual_devices(options());
    const at::Tensor three = device_bytes(3 * kMiB);
    allocated.give();
    refused.await();
    return 0;
  });
  const Child second([&] {
    open_virtual_devices(options());
    allocated.await();
    const VirtualMemory before = virtual_memory(0);
    const std::string text = refusal_of([] { device_bytes(2 * kMiB); });
    const bool has_room = refusal_of([] { device_bytes(kMiB); }).empty();
    refused.give();
    if (before.live != 0 || before.used != 3 * kMiB) return 1;
    if (text.find("of which 1.00 MiB is free. This process has 0 bytes memory in use, other "
                  "processes have 3.00 MiB.") == text.npos) {
      return 2;
    }
    return has_room && virtual_memory(1).used == 0 ? 0 : 3;
  });
  EXPECT_EQ(first.status(), 0);
  EXPECT_EQ(second.status(), 0);
}

TEST_F(VirtualLedger, GivesBackWhatAnEndedProcessHeld) {
  const Signal opened, ended;
  const Child survivor([&] {
    open_virtual_devices(options());
    opened.give();
    ended.await();
    if (virtual_memory(0).used != 3 * kMiB) return 1;
    return refusal_of([] { device_bytes(4 * kMiB); }).empty() ? 0 : 2;
  });
  const auto hold = [&] {
    open_virtual_devices(options());
    new at::Tensor(device_bytes(3 * kMiB));
    return 0;
  };
  opened.await();
  EXPECT_EQ(Child(hold).status(), 0);
  EXPECT_EQ(Child(hold).status(), 0) << "in the place of the one before";
  ended.give();
  EXPECT_EQ(survivor.status(), 0);
}

TEST_F(VirtualLedger, StaysBalancedUnderManyProcesses) {
  std::vector<Child> children;
  for (int child = 0; child < 6; ++child) {
    children.emplace_back([&] {
      open_virtual_devices(options());
      for (int i = 0; i < 2000; ++i) {
        if (!refusal_of([&] { device_bytes(1 + i % 1000, i % 2); }).empty()) return 1;
      }
      return virtual_memory(0).live == 0 ? 0 : 2;
    });
  }
  for (const Child& child : children) EXPECT_EQ(child.status(), 0);
  open_virtual_devices(options());
  EXPECT_EQ(virtual_memory(0).used, 0);
  EXPECT_EQ(virtual_memory(1).used, 0);
}

TEST_F(VirtualLedger, ThatCannotBeWrittenIsAnErrorOfTheUser) {
  const auto error_with = [](const std::filesystem::path& ledger) -> std::string {
    try {
      open_virtual_devices({.ledger = ledger});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_THAT(error_with(folder_.path() / "none" / "ledger"),
              HasSubstr("none/ledger: No such file or directory"));
  const auto other = folder_.path() / "other";
  std::ofstream(other) << "a text";
  EXPECT_THAT(error_with(other), HasSubstr("it is no ledger of virtual devices"));
  const FullDisk full(4096);
  EXPECT_THAT(error_with(folder_.path() / "ledger"), HasSubstr("ledger: File too large"));
  EXPECT_FALSE(has_virtual_devices());
}

}  // namespace
}  // namespace lockstep
