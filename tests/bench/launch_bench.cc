#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "harness/launch/launch.h"

namespace lockstep {
namespace {

/// From the launch to the last exit of `state.range(0)` ranks that do nothing.
void launch_to_exit(benchmark::State& state) {
  std::string folder = (std::filesystem::temp_directory_path() / "launch-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return state.SkipWithError("no temporary folder");
  LaunchOptions options;
  options.ranks = static_cast<int>(state.range(0));
  options.folder = folder;
  for (auto _ : state) {
    const auto exits = launch_ranks(options, [](const RankPlacement&) { return 0; });
    benchmark::DoNotOptimize(exits.data());
    state.PauseTiming();
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    state.ResumeTiming();
  }
  std::filesystem::remove_all(folder);
}

BENCHMARK(launch_to_exit)
    ->Arg(1)
    ->Arg(2)
    ->Arg(16)
    ->Arg(64)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep

BENCHMARK_MAIN();
