// Cost of judging: records of many rows whose ranks agree, or whose last step differs.
//
// Each benchmark first writes its record, in its own folder below TMPDIR. LOCKSTEP_BENCH_MIB sets
// the total size of its journals (64).

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/record/journal.h"
#include "harness/record/journal_writer.h"
#include "harness/record/manifest.h"
#include "harness/record/process_identity.h"
#include "harness/record/splitmix64.h"
#include "harness/verdict/judge_run.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// What a record holds. 100 steps of 4096 ranks with 24 tensors fit into 1 GiB.
struct Extent {
  int ranks;
  int tensors;             ///< that each rank observes in a step
  bool is_sharded;         ///< each rank has its own part of each tensor
  std::int64_t steps = 0;  ///< 0: as many as take LOCKSTEP_BENCH_MIB

  auto operator<=>(const Extent&) const = default;
};

/// Row `tensor` of `rank` in a step: parameters and gradients.
Observation row_of(std::int64_t step, int tensor, bool is_sharded = false, int rank = 0) {
  Observation row;
  const bool is_gradient = tensor % 2 == 1;
  row.kind = is_gradient ? Kind::gradient : Kind::parameter;
  row.phase = is_gradient ? Phase::pre_step : Phase::pre_forward;
  row.step = step;
  row.name = fmt::format("model.layers.{}.mlp.gate_proj.weight", tensor / 2);
  row.dtype = "float32";
  row.global_shape = row.local_shape = {4096, 1024};
  row.offset = {0, 0};
  if (is_sharded) {
    row.local_shape = {1, 1024};
    row.offset = {rank, 0};
    row.replica_group = group_of_one(rank);
  }
  const auto seed = static_cast<std::uint64_t>(step * 1000 + tensor);
  row.digest = {splitmix64(seed), splitmix64(~seed)};
  const double norm = static_cast<double>(splitmix64(seed + 1) >> 11) * 0x1p-50;
  row.statistics = {norm, -norm / 3, norm / 7, 0};
  return row;
}

JobRecord job_of(const Extent& extent) {
  JobRecord job;
  job.id = "3f9c2a";
  job.title = "train.py";
  job.folder = "job";
  job.world_size = job.processes = extent.ranks;
  job.claims = {agree_across_ranks(Kind::parameter, Phase::pre_forward),
                agree_across_ranks(Kind::gradient, Phase::pre_step), ranks_finish()};
  for (int rank = 0; rank < extent.ranks; ++rank) {
    RankExit& exit = job.exits.emplace_back();
    exit.rank = rank;
    exit.rows = extent.steps * extent.tensors;
  }
  return job;
}

std::int64_t bytes_asked_for() {
  const char* const mebibytes = std::getenv("LOCKSTEP_BENCH_MIB");
  return std::int64_t{mebibytes ? std::atoi(mebibytes) : 64} << 20;
}

/// A run of one job.
class Record {
 public:
  explicit Record(Extent extent) : extent_(extent) {
    if (extent_.steps == 0) {
      const std::int64_t step = kRowSize * extent_.tensors * extent_.ranks;
      extent_.steps = std::max<std::int64_t>(bytes_asked_for() / step, 1);
    }
    run_.environment.digest = kDigestName;
    run_.planned = PlannedCounts{};
    run_.jobs.push_back(job_of(extent_));
    const fs::path folder = folder_.path() / "job";
    fs::create_directory(folder);
    for (int rank = 0; rank < extent_.ranks; ++rank) write(journal_file(folder, rank), rank);
    run_.jobs[0].manifest = write_manifest(folder, extent_.ranks, execution_identity(run_.jobs[0]));
  }

  /// Judges the whole record. Returns the bytes of its journals.
  std::int64_t judge(IndexUse use) {
    RunRecord run = run_;
    judge_run(run, folder_.path(), {use});
    if (status_of(run.jobs[0]) != ExitStatus::as_expected) std::abort();
    return bytes_;
  }

 private:
  static constexpr std::int64_t kRowSize = 96;

  void write(const fs::path& file, int rank) {
    const JobRecord& job = run_.jobs[0];
    {
      JournalWriter journal(file, process_identity(job, rank));
      for (std::int64_t step = 1; step <= extent_.steps; ++step) {
        for (int tensor = 0; tensor < extent_.tensors; ++tensor) {
          journal.append(row_of(step, tensor, extent_.is_sharded, rank));
        }
      }
    }
    bytes_ += static_cast<std::int64_t>(fs::file_size(file));
  }

  TemporaryFolder folder_;
  RunRecord run_;
  Extent extent_;
  std::int64_t bytes_ = 0;
};

Record& record_of(const Extent& extent) {
  static std::map<Extent, std::unique_ptr<Record>> records;
  auto& record = records[extent];
  if (!record) record = std::make_unique<Record>(extent);
  return *record;
}

void judge(benchmark::State& state, IndexUse use) {
  Record& record = record_of({static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                              state.range(2) != 0, state.range(3)});
  std::int64_t bytes = 0;
  for (auto _ : state) bytes += record.judge(use);
  state.SetBytesProcessed(bytes);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

void judge_by_index(benchmark::State& state) { judge(state, IndexUse::believed); }
void judge_every_row(benchmark::State& state) { judge(state, IndexUse::checked); }
void judge_without_index(benchmark::State& state) { judge(state, IndexUse::ignored); }

/// The members of an `Extent`.
const std::vector<std::string> kExtent = {"ranks", "tensors", "sharded", "steps"};

BENCHMARK(judge_by_index)
    ->ArgNames(kExtent)
    ->Args({8, 240, false, 0})
    ->Args({4096, 24, false, 0})
    ->Args({4096, 1000, false, 3})
    ->Args({4096, 1000, true, 3})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(judge_every_row)
    ->ArgNames(kExtent)
    ->Args({8, 240, false, 0})
    ->Args({4096, 24, false, 0})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(judge_without_index)
    ->ArgNames(kExtent)
    ->Args({8, 240, false, 0})
    ->Unit(benchmark::kMillisecond);

constexpr int kWritten = 240;  // tensors

void write_journal(benchmark::State& state) {
  std::int64_t bytes = 0;
  std::vector<Observation> rows;
  for (int tensor = 0; tensor < kWritten; ++tensor) rows.push_back(row_of(1, tensor));
  for (auto _ : state) {
    const TemporaryFolder folder;
    const fs::path file = journal_file(folder.path(), 0);
    JournalWriter journal(file);
    for (std::int64_t step = 1; step <= 100; ++step) {
      for (Observation& row : rows) {
        row.step = step;
        journal.append(row);
      }
    }
    bytes += static_cast<std::int64_t>(fs::file_size(file));
  }
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(state.iterations() * 100 * kWritten);
}
BENCHMARK(write_journal)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
