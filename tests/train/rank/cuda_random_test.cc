#include "harness/train/rank/cuda_random.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "harness/train/nn/module.h"
#include "harness/train/optim/optimizer.h"
#include "reports/base/error.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::array<std::uint32_t, 4>;

std::vector<float> values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

// The known answers of Random123 for philox4x32-10.
TEST(Philox, MeetsTheKnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ULL, ~0ULL, ~0ULL), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// torch has its own Philox for the CPU, with the same numbering.
TEST(Philox, EqualsTorchsEngine) {
  for (const std::uint64_t seed : {0ULL, 1004ULL, 0xfedcba9876543210ULL}) {
    for (const std::uint64_t subsequence : {0ULL, 255ULL, 0x1'0000'0003ULL}) {
      for (const std::uint64_t offset : {0ULL, 7ULL, 0x2'0000'0000ULL}) {
        at::Philox4_32 engine(seed, subsequence, offset);
        const Words expected{engine(), engine(), engine(), engine()};
        EXPECT_EQ(philox(seed, subsequence, offset), expected);
      }
    }
  }
}

// Torch's output on a GPU: `torch.manual_seed(0)`, then randn(8, 8), randn(8, 8), randn(1, 8) with
// device="cuda". Source: github.com/kapilsh/cuda-mode-lecture, "Fused Add Mul Relu".
constexpr float kPrintedFirst[8][8] = {
    {-0.9247, -0.4253, -2.6438, 0.1452, -0.1209, -0.5797, -0.6229, -0.3284},
    {-1.0745, -0.3631, -1.6711, 2.2655, 0.3117, -0.1842, 1.2866, 1.1820},
    {-0.1271, 1.2169, 1.4353, 1.0605, -0.4941, -1.4244, -0.7244, -1.2973},
    {0.0697, -0.0074, 1.8969, 0.6878, -0.0779, -0.8373, 1.3506, -0.2879},
    {-0.5965, -0.3283, -0.9086, -0.8059, -0.7407, -0.0504, 0.5435, 1.5150},
    {0.0141, 0.4532, 1.6349, 0.7124, -0.1806, 1.0252, -1.4622, -0.7554},
    {-0.1836, 0.3824, 0.3918, -0.0830, 0.8971, -1.1123, 0.1116, 0.4863},
    {-0.5499, -0.3231, -0.5469, 0.9049, 0.2837, 0.1210, 0.4730, -1.0823}};

// max(first + 0.5 * second + third, 0), five significant digits.
constexpr float kPrintedCombination[8][8] = {
    {1.7098e+00, 0, 0, 0, 6.7049e-01, 0, 3.4424e-01, 1.1223e-02},
    {1.8750e+00, 0, 0, 2.2105e+00, 6.6808e-01, 0, 1.8445e+00, 1.9246e+00},
    {2.2614e+00, 1.3964e+00, 5.1802e-01, 2.0114e+00, 0, 0, 2.7715e-01, 0},
    {2.4750e+00, 0, 1.9079e+00, 5.4869e-01, 3.7923e-01, 0, 3.1791e+00, 6.6843e-01},
    {1.8234e+00, 0, 1.1147e-01, 0, 0, 0, 2.4250e+00, 3.2593e+00},
    {2.2903e+00, 0, 1.1721e+00, 6.9331e-01, 1.0583e+00, 6.7518e-01, 0, 2.6185e-01},
    {1.5804e+00, 0, 9.0740e-01, 1.6670e-01, 5.5230e-02, 0, 1.5325e+00, 3.5984e-01},
    {1.5554e+00, 0, 0, 9.4380e-01, 2.9795e-03, 7.4125e-02, 1.6286e+00, 0}};

TEST(CudaGenerator, DrawsWhatAGpuPrinted) {
  CudaGenerator generator(0);
  const std::vector<float> drawn = values(generator.randn({8, 8}));
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(fmt::format("{:.4f}", drawn[i]), fmt::format("{:.4f}", kPrintedFirst[i / 8][i % 8]));
  }
}

TEST(CudaGenerator, ContinuesItsStreamAsAGpuDid) {
  CudaGenerator generator(0);
  const std::vector<float> first = values(generator.randn({8, 8}));
  const std::vector<float> second = values(generator.randn({8, 8}));
  const std::vector<float> third = values(generator.randn({1, 8}));
  for (std::size_t i = 0; i < 64; ++i) {
    const float sum = first[i] + 0.5F * second[i] + third[i % 8];
    const float printed = kPrintedCombination[i / 8][i % 8];
    EXPECT_NEAR(sum > 0 ? sum : 0, printed, 1e-6 + printed * 5e-5) << i;
  }
}

// The kernel of ATen/native/cuda/DistributionTemplates.h and curand's state machine, thread by
// thread, as written there.
class Thread {
 public:
  Thread(std::uint64_t seed, std::uint64_t subsequence, std::uint64_t offset) {
    key_[0] = static_cast<std::uint32_t>(seed);
    key_[1] = static_cast<std::uint32_t>(seed >> 32);
    counter_[2] = static_cast<std::uint32_t>(subsequence);
    counter_[3] = static_cast<std::uint32_t>(subsequence >> 32);
    for (std::uint64_t i = 0; i < offset / 4; ++i) increment();
  }

  std::array<float, 4> normal4() {
    const Words r = philox((std::uint64_t{key_[1]} << 32) | key_[0],
                           (std::uint64_t{counter_[3]} << 32) | counter_[2],
                           (std::uint64_t{counter_[1]} << 32) | counter_[0]);
    increment();
    std::array<float, 4> result;
    box_muller(r[0], r[1], &result[0]);
    box_muller(r[2], r[3], &result[2]);
    return result;
  }

 private:
  void increment() {
    for (std::uint32_t& word : counter_) {
      if (++word != 0) return;
    }
  }

  static void box_muller(std::uint32_t x, std::uint32_t y, float* out) {
    const double u = x * 0x1p-32 + 0x1p-33;
    const double v = (y * 0x1p-32 + 0x1p-33) * 2 * M_PI;
    out[0] = static_cast<float>(std::sqrt(-2 * std::log(u)) * std::sin(v));
    out[1] = static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(v));
  }

  std::uint32_t key_[2] = {};
  std::uint32_t counter_[4] = {};
};

struct SlowGpu {
  std::uint64_t seed;
  int multiprocessors;
  int threads_per_multiprocessor;
  std::uint64_t offset = 0;

  std::vector<float> randn(std::int64_t numel) {
    const std::int64_t block = 256;
    const std::int64_t unroll = 4;
    const std::int64_t grid =
        std::min<std::int64_t>(std::int64_t{multiprocessors} * (threads_per_multiprocessor / block),
                               (numel + block - 1) / block);
    const std::int64_t step = block * grid * unroll;
    const std::int64_t rounded = ((numel - 1) / step + 1) * step;
    std::vector<float> out(static_cast<std::size_t>(numel), NAN);
    for (std::int64_t idx = 0; idx < block * grid; ++idx) {
      Thread state(seed, static_cast<std::uint64_t>(idx), offset);
      for (std::int64_t linear = idx; linear < rounded; linear += step) {
        const std::array<float, 4> rand = state.normal4();
        for (std::int64_t ii = 0; ii < unroll; ++ii) {
          const std::int64_t li = linear + block * grid * ii;
          if (li < numel) out[static_cast<std::size_t>(li)] = rand[static_cast<std::size_t>(ii)];
        }
      }
    }
    offset += static_cast<std::uint64_t>(((numel - 1) / step + 1) * 4);
    return out;
  }
};

void expect_near(const std::vector<float>& drawn, const std::vector<float>& expected) {
  ASSERT_EQ(drawn.size(), expected.size());
  for (std::size_t i = 0; i < drawn.size(); ++i) ASSERT_NEAR(drawn[i], expected[i], 3e-6) << i;
}

TEST(CudaGenerator, LaysNumbersOutAsTheKernelDoes) {
  for (const std::int64_t numel : {1, 16, 255, 256, 257, 300, 1000, 1024}) {
    CudaGenerator generator(1000);
    SlowGpu gpu{1000, 132, 2048};
    expect_near(values(generator.randn({numel})), gpu.randn(numel));
    expect_near(values(generator.randn({3})), gpu.randn(3));
  }
}

// Two multiprocessors of 512 threads give a grid of 1024. So 1025 elements need the second number
// of a call and 4097 the second call.
TEST(CudaGenerator, LaysNumbersOutBeyondOneGrid) {
  for (const std::int64_t numel : {1023, 1024, 1025, 2047, 4096, 4097, 9000}) {
    CudaGenerator generator(7, CudaGrid{2, 512});
    SlowGpu gpu{7, 2, 512};
    expect_near(values(generator.randn({numel})), gpu.randn(numel));
    expect_near(values(generator.randn({2500})), gpu.randn(2500));
    expect_near(values(generator.randn({5})), gpu.randn(5));
  }
}

TEST(CudaGenerator, CutsThreadsOfAMultiprocessorIntoWholeBlocks) {
  CudaGenerator generator(7, CudaGrid{1, 1000});
  SlowGpu gpu{7, 1, 768};
  expect_near(values(generator.randn({4000})), gpu.randn(4000));
}

TEST(CudaGenerator, DrawsTheSameOnEveryGpuUpToItsBound) {
  const at::Tensor any = CudaGenerator(3).randn({kElementsOnAnyGpu});
  const at::Tensor smallest = CudaGenerator(3, CudaGrid{1, 1024}).randn({kElementsOnAnyGpu});
  const at::Tensor largest = CudaGenerator(3, CudaGrid{160, 2048}).randn({kElementsOnAnyGpu});
  EXPECT_TRUE(at::equal(any, smallest));
  EXPECT_TRUE(at::equal(any, largest));
}

TEST(CudaGenerator, DependsOnTheShapeOnlyByItsSize) {
  const at::Tensor flat = CudaGenerator(5).randn({24});
  const at::Tensor cube = CudaGenerator(5).randn({2, 3, 4});
  EXPECT_THAT(cube.sizes().vec(), ElementsAre(2, 3, 4));
  EXPECT_EQ(cube.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(cube.flatten(), flat));
}

TEST(CudaGenerator, DrawsNothingForAnEmptyTensor) {
  CudaGenerator generator(5);
  EXPECT_THAT(generator.randn({0, 4}).sizes().vec(), ElementsAre(0, 4));
  EXPECT_TRUE(at::equal(generator.randn({4}), CudaGenerator(5).randn({4})));
}

// The four numbers of one call, with every float32 operation rounded once; computed with exact
// fractions.
TEST(CudaGenerator, RoundsAsFloat32) {
  const std::vector<float> drawn = values(CudaGenerator(42, CudaGrid{1, 256}).randn({1024}));
  std::vector<std::uint32_t> bits;
  for (const std::size_t i : {167U, 423U, 679U, 935U}) {
    bits.push_back(std::bit_cast<std::uint32_t>(drawn[i]));
  }
  EXPECT_THAT(bits, ElementsAre(0x3fa63ef7, 0x3d0565dc, 0x3f098942, 0x3fcf1623));
}

TEST(CudaGenerator, TakesAllBitsOfTheSeed) {
  const at::Tensor low = CudaGenerator(5).randn({4});
  const at::Tensor high = CudaGenerator(5 + (1ULL << 32)).randn({4});
  EXPECT_FALSE(at::equal(low, high));
}

template <class Call>
std::string internal_error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::internal);
    return error.what();
  }
  return "no error";
}

TEST(CudaGenerator, RefusesALayoutThatItDoesNotKnow) {
  EXPECT_THAT(internal_error_of([] { CudaGenerator(0).randn({kElementsOnAnyGpu + 1}); }),
              HasSubstr("1025 elements depend on the GPU"));
  EXPECT_THAT(internal_error_of([] { CudaGenerator(0, CudaGrid{132}).randn({(1 << 29) + 1}); }),
              HasSubstr("536870913 elements are drawn in pieces"));
}

TEST(CudaGenerator, RefusesAGridThatNoGpuHas) {
  EXPECT_THAT(internal_error_of([] { CudaGenerator(0, CudaGrid{0}); }),
              HasSubstr("0 multiprocessors"));
  EXPECT_THAT(internal_error_of([] {
                CudaGenerator(0, CudaGrid{1, 255});
              }),
              HasSubstr("255 threads"));
}

// The script of pull request 49: two ranks, each with a replica of Linear(4, 4), drawn with seed 0
// on the CPU. Rank r shifts its inputs by r.
struct Replica {
  Linear model{4, 4, cpu_generator(0)};
  Sgd optimizer{model.parameters(), 0.05};

  /// The gradient of the first weight in step s, counted from 0.
  float step(std::uint64_t s, int rank) {
    const at::Tensor input = CudaGenerator(1000 + s).randn({4, 4}) * 0.5 + rank;
    const at::Tensor target = CudaGenerator(s).randn({4, 4});
    model.zero_grad();
    (model.forward(input) - target).pow(2).mean().backward();
    optimizer.step();
    return values(model.parameters()[0].grad())[0];
  }
};

TEST(CudaGenerator, MeetsThePublishedGradients) {
  const std::vector<std::vector<std::string>> published{{"0.04043", "0.19431"},
                                                        {"-0.13683", "-0.05685"},
                                                        {"0.05426", "-0.25685"},
                                                        {"0.02004", "-0.01721"},
                                                        {"-0.21217", "-0.45084"}};
  Replica ranks[2];
  for (std::size_t s = 0; s < published.size(); ++s) {
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(fmt::format("{:.5f}", ranks[rank].step(s, rank)),
                published[s][static_cast<std::size_t>(rank)])
          << "step " << s + 1 << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace lockstep
