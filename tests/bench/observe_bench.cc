// Cost of observing a tensor, compared with the cheapest passes over the same bytes.

#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "harness/observe/look_at.h"

namespace lockstep {
namespace {

at::Tensor tensor_of(std::int64_t bytes) {
  at::set_num_threads(1);
  return at::randn({bytes / 4});
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// Runs `pass` over a float32 tensor with the number of bytes in the benchmark's argument.
template <class Pass>
void over_tensor(benchmark::State& state, const Pass& pass) {
  const at::Tensor tensor = tensor_of(state.range(0));
  for (auto _ : state) pass(tensor);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void copy_bytes(benchmark::State& state) {
  std::vector<std::byte> target(static_cast<std::size_t>(state.range(0)));
  over_tensor(state, [&](const at::Tensor& tensor) {
    std::memcpy(target.data(), tensor.const_data_ptr(), target.size());
    benchmark::ClobberMemory();
  });
}

void sum_words(benchmark::State& state) {
  over_tensor(state, [](const at::Tensor& tensor) {
    const auto* const words = static_cast<const std::int64_t*>(tensor.const_data_ptr());
    benchmark::DoNotOptimize(std::accumulate(words, words + tensor.nbytes() / 8, std::int64_t{0}));
  });
}

void digest_alone(benchmark::State& state) {
  over_tensor(state, [](const at::Tensor& tensor) {
    benchmark::DoNotOptimize(digest_run(bytes_of(tensor), 0));
  });
}

void statistics_alone(benchmark::State& state) {
  over_tensor(state, [](const at::Tensor& tensor) {
    benchmark::DoNotOptimize(statistics(DType::float32, bytes_of(tensor)));
  });
}

void look_and_keep(benchmark::State& state) {
  over_tensor(state, [](const at::Tensor& tensor) {
    std::vector<std::byte> kept;
    benchmark::DoNotOptimize(look_at(tensor, std::nullopt, &kept));
  });
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->RangeMultiplier(8)->Range(1 << 10, 64 << 20);
}

BENCHMARK(copy_bytes)->Apply(sizes);
BENCHMARK(sum_words)->Apply(sizes);
BENCHMARK(digest_alone)->Apply(sizes);
BENCHMARK(statistics_alone)->Apply(sizes);
BENCHMARK(look_and_keep)->Apply(sizes);

}  // namespace
}  // namespace lockstep
