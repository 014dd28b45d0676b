// Rates of digests and of whole passes over a tensor, side by side with a plain sum, a copy, and
// the hashes of other tools. One thread. tests/bench/performance_table.py makes the table of
// docs/performance.md from them. BENCH_MIB is the tensor's size: 256 if not given, at least 4.

#include <benchmark/benchmark.h>
#include <openssl/evp.h>
#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "harness/record/measure.h"
#include "harness/record/vector_target.h"

namespace lockstep {
namespace {

std::size_t size_of_large() {
  const char* const mib = std::getenv("BENCH_MIB");
  return static_cast<std::size_t>(mib ? std::atoi(mib) : 256) << 20;
}

const std::size_t kLarge = size_of_large();  // bytes
constexpr std::size_t kSmall = 4096;
constexpr std::size_t kSmallTensors = 1000;

/// Tensors of torch begin at such an address. Where a load crosses two lines of the cache, some
/// processors read memory at two thirds of the rate.
struct alignas(64) Line {
  float values[16];
};

/// Normally distributed float32, and the same bits as bfloat16: most are numbers.
std::vector<Line> drawn() {
  std::vector<Line> lines(kLarge / sizeof(Line));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  constexpr std::size_t kPeriod = 1 << 16;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i >= kPeriod) {
      lines[i] = lines[i - kPeriod];
    } else {
      for (float& value : lines[i].values) value = normal(random);
    }
  }
  return lines;
}

std::span<const std::byte> large() {
  static const std::vector<Line> lines = drawn();
  return std::as_bytes(std::span(lines));
}

Observation tensor_of(std::size_t bytes, const char* dtype) {
  Observation tensor;
  tensor.dtype = dtype;
  const auto size = static_cast<std::int64_t>(item_size(*parse<DType>(dtype)));
  tensor.global_shape = tensor.local_shape = {static_cast<std::int64_t>(bytes) / size};
  tensor.offset = {0};
  return tensor;
}

void set_rate(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

template <class Pass>
void over_large(benchmark::State& state, const Pass& pass) {
  const std::span<const std::byte> bytes = large();
  for (auto _ : state) benchmark::DoNotOptimize(pass(bytes));
  set_rate(state, bytes.size());
}

void sum_of_words(benchmark::State& state) {
  over_large(state, [](std::span<const std::byte> bytes) {
    const auto* const words = reinterpret_cast<const std::uint64_t*>(bytes.data());
    return std::accumulate(words, words + bytes.size() / 8, std::uint64_t{0});
  });
}

void copy(benchmark::State& state) {
  static std::vector<Line> target(kLarge / sizeof(Line));
  over_large(state, [](std::span<const std::byte> bytes) {
    std::memcpy(target.data(), bytes.data(), bytes.size());
    benchmark::ClobberMemory();
    return target.data();
  });
}

void xxh3_128(benchmark::State& state) {
  over_large(state, [](std::span<const std::byte> bytes) {
    return XXH3_128bits(bytes.data(), bytes.size()).low64;
  });
}

void sha1(benchmark::State& state) {
  over_large(state, [](std::span<const std::byte> bytes) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    EVP_Digest(bytes.data(), bytes.size(), digest, nullptr, EVP_sha1(), nullptr);
    return digest[0];
  });
}

void crc32_of_zlib(benchmark::State& state) {
  over_large(state, [](std::span<const std::byte> bytes) {
    return ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  });
}

void digest_alone(benchmark::State& state, const VectorTarget& target) {
  use_target(target);
  over_large(state, [](std::span<const std::byte> bytes) { return digest_run(bytes, 0).low; });
}

void everything(benchmark::State& state, const VectorTarget& target, const char* dtype) {
  use_target(target);
  Observation tensor = tensor_of(kLarge, dtype);
  over_large(state, [&](std::span<const std::byte> bytes) {
    return measure_and_sketch(tensor, bytes).lanes[0];
  });
}

void small_tensors(benchmark::State& state, const VectorTarget& target) {
  use_target(target);
  Observation tensor = tensor_of(kSmall, "float32");
  const std::span<const std::byte> bytes = large();
  for (auto _ : state) {
    for (std::size_t i = 0; i < kSmallTensors; ++i) {
      benchmark::DoNotOptimize(measure_and_sketch(tensor, bytes.subspan(i * kSmall, kSmall)));
    }
  }
  set_rate(state, kSmallTensors * kSmall);
}

void small_sum(benchmark::State& state) {
  const auto* const words = reinterpret_cast<const std::uint64_t*>(large().data());
  constexpr std::size_t kWords = kSmallTensors * kSmall / 8;
  for (auto _ : state) {
    benchmark::DoNotOptimize(std::accumulate(words, words + kWords, std::uint64_t{0}));
  }
  set_rate(state, kSmallTensors * kSmall);
}

BENCHMARK(sum_of_words);
BENCHMARK(copy);
BENCHMARK(xxh3_128);
BENCHMARK(sha1);
BENCHMARK(crc32_of_zlib);
BENCHMARK(small_sum)->Name("1000 x 4 KB, sum_of_words");

void register_targets() {
  for (const VectorTarget* target : supported_targets()) {
    const std::string name(target->name);
    const auto add = [&](const std::string& what, auto pass) {
      benchmark::RegisterBenchmark((what + ", " + name).c_str(),
                                   [=](benchmark::State& state) { pass(state, *target); });
    };
    add("digest", digest_alone);
    add("everything, float32", [](auto& state, auto& one) { everything(state, one, "float32"); });
    add("everything, bfloat16", [](auto& state, auto& one) { everything(state, one, "bfloat16"); });
    add("1000 x 4 KB, everything", small_tensors);
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::register_targets();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
