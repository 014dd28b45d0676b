#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/zip_archive.h"
#include "harness/cli/stored_runs.h"
#include "harness/judge/evidence/step_reader.h"
#include "harness/pack/archive.h"
#include "harness/pack/opened_run.h"
#include "harness/pack/pack_label.h"
#include "harness/pack/redaction.h"
#include "harness/record/collective_log.h"
#include "harness/record/journal_writer.h"
#include "harness/record/manifest.h"
#include "harness/record/rank_files.h"
#include "harness/record/run_folder.h"
#include "harness/record/sketch.h"
#include "harness/record/snapshots.h"
#include "harness/record/stall.h"
#include "harness/record/stalled_calls.h"
#include "harness/verdict/table.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "reports/record/joined_record.h"
#include "reports/record/json.h"
#include "reports/record/known_findings.h"
#include "tests/checkpoint/literal_checkpoint.h"
#include "tests/command.h"
#include "tests/linear/slope.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// A reader, and the things of which its input has any number.
struct Reader {
  const char* name;
  int n;
  MakeWork make;
};

void PrintTo(const Reader& reader, std::ostream* out) { *out << reader.name; }

std::string header_of(int tensors, const std::string& metadata = "") {
  std::string header = "{" + metadata;
  for (int i = 0; i < tensors; ++i) {
    header += fmt::format(R"({}"m.{}.w":{{"dtype":"F32","shape":[2],"data_offsets":[{},{}]}})",
                          header.size() == 1 ? "" : ",", i, 8 * i, 8 * i + 8);
  }
  return header + "}";
}

Work snapshot_of_tensors(const fs::path& folder, int n) {
  const fs::path file = folder / "rank-0.step-1.safetensors";
  const auto size = static_cast<std::size_t>(8 * n);
  write_text(file, safetensors(header_of(n), std::string(size, '\0')));
  return [=] { EXPECT_EQ(read_snapshot(file).tensors.size(), static_cast<std::size_t>(n)); };
}

Work checkpoint_of_shards(const fs::path& folder, int n) {
  Json offsets = Json::object();
  for (int i = 0; i < n; ++i) {
    offsets[fmt::format("m.{}.w", i)] = {{"saved_offsets", {0}}};
  }
  const Json metadata = {{"DCP_SHARDING_INFO", offsets.dump()}};
  const auto size = static_cast<std::size_t>(8 * n);
  write_text(
      folder / "a.safetensors",
      safetensors(header_of(n, "\"__metadata__\":" + metadata.dump()), std::string(size, '\0')));
  return [=] { EXPECT_EQ(open_checkpoint(folder).tensors.size(), static_cast<std::size_t>(n)); };
}

Work index_of_files(const fs::path& folder, int n) {
  Json files = Json::object();
  for (int i = 0; i < n; ++i) files[fmt::format("m.{}.w", i)] = "a.safetensors";
  write_text(folder / "model.safetensors.index.json", Json{{"weight_map", files}}.dump());
  write_text(folder / "a.safetensors", safetensors("{}", ""));
  return [=] { EXPECT_TRUE(open_checkpoint(folder).tensors.empty()); };
}

Work distributed_of_tensors(const fs::path& folder, int n) {
  LiteralDistributed checkpoint;
  for (int i = 0; i < n; ++i) checkpoint.add(fmt::format("m.{}.w", i), {2}, {{{0}, {2}, ""}});
  checkpoint.write(folder);
  return [=] { EXPECT_EQ(open_checkpoint(folder).tensors.size(), static_cast<std::size_t>(n)); };
}

/// Any answer is right, if it comes soon.
Work hostile(const fs::path& folder, const std::string& metadata) {
  write_text(folder / ".metadata", metadata);
  return [=] {
    try {
      open_checkpoint(folder);
    } catch (const Error&) {
    }
  };
}

std::string repeated(const std::string& text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

std::string put(int slot) { return "r" + little<std::uint32_t>(static_cast<std::uint32_t>(slot)); }
std::string get(int slot) { return "j" + little<std::uint32_t>(static_cast<std::uint32_t>(slot)); }

/// The metadata of n places of one entry, whose `state` may be as large as it likes.
std::string places_of(const std::string& index_state, int n, const std::string& file = "x") {
  using namespace pickling;
  const std::string index = object("MetadataIndex", "}(" + index_state + "u") + put(0) + "0";
  const std::string info = object("_StorageInfo",
                                  dict({{text("relative_path"), text(file)},
                                        {text("offset"), number(0)},
                                        {text("length"), number(0)}}),
                                  "filesystem") +
                           put(1) + "0";
  const std::string places = "}(" + repeated(get(0) + get(1), n) + "u";
  return whole(index + info +
               object("Metadata",
                      dict({{text("state_dict_metadata"), "}"}, {text("storage_data"), places}})));
}

/// One object with n attributes, named n times.
Work distributed_of_attributes(const fs::path& folder, int n) {
  using namespace pickling;
  return hostile(folder,
                 places_of(repeated(number(1) + number(1), n) + text("fqn") + text("w"), n));
}

/// n chunks at one place of n dimensions.
Work distributed_of_dimensions(const fs::path& folder, int n) {
  using namespace pickling;
  const std::string dimensions = "(" + repeated(number(1), n) + "t" + put(0) + "0";
  std::string places = "}(";
  for (int i = 0; i < n; ++i) {
    places += object("MetadataIndex",
                     dict({{text("fqn"), text(fmt::format("m.{}", i))}, {text("offset"), get(0)}}));
    places += object("_StorageInfo",
                     dict({{text("relative_path"), text("x")},
                           {text("offset"), number(0)},
                           {text("length"), number(0)}}),
                     "filesystem");
  }
  return hostile(
      folder, whole(dimensions + object("Metadata", dict({{text("state_dict_metadata"), "}"},
                                                          {text("storage_data"), places + "u"}}))));
}

Work distributed_with_a_long_path(const fs::path& folder, int n) {
  using namespace pickling;
  return hostile(folder, places_of(text("fqn") + text("w"), n, repeated("a/", n)));
}

/// One chunk, n times in each of n tensors.
Work distributed_of_one_chunk(const fs::path& folder, int n) {
  using namespace pickling;
  const std::string chunk = object(
      "ChunkStorageMetadata", dict({{text("offsets"), size({0})}, {text("sizes"), size({0})}}));
  const std::string chunks = "](" + chunk + put(0) + repeated(get(0), n - 1) + "e" + put(1) + "0";
  const std::string properties = object(
      "TensorProperties", tuple({global("torch", "float32"), "\x89", "\x89", "\x89", "\x89"}));
  std::vector<std::pair<std::string, std::string>> entries, places;
  for (int i = 0; i < n; ++i) {
    const std::string name = text(fmt::format("m.{}", i));
    entries.emplace_back(name,
                         object("TensorStorageMetadata", dict({{text("properties"), properties},
                                                               {text("size"), size({0})},
                                                               {text("chunks"), get(1)}})));
    places.emplace_back(
        object("MetadataIndex", dict({{text("fqn"), name}, {text("offset"), size({0})}})),
        object("_StorageInfo",
               dict({{text("relative_path"), text("x")},
                     {text("offset"), number(0)},
                     {text("length"), number(0)}}),
               "filesystem"));
  }
  return hostile(
      folder, whole(chunks + object("Metadata", dict({{text("state_dict_metadata"), dict(entries)},
                                                      {text("storage_data"), dict(places)}}))));
}

/// A tensor of n columns, each of them a chunk: all have the same rows.
Work distributed_of_columns(const fs::path& folder, int n) {
  std::vector<LiteralChunk> chunks;
  for (int i = 0; i < n; ++i) chunks.push_back({{0, i}, {2, 1}, ""});
  return hostile(folder, LiteralDistributed().add("w", {2, n}, chunks).metadata());
}

Work distributed_of_a_grid(const fs::path& folder, int n) {
  std::vector<LiteralChunk> chunks;
  const auto side = static_cast<std::int64_t>(std::sqrt(n));
  for (std::int64_t i = 0; i < side * side; ++i)
    chunks.push_back({{i / side, i % side}, {1, 1}, ""});
  return hostile(folder, LiteralDistributed().add("w", {side, side}, chunks).metadata());
}

Work zip_of_members(const fs::path& folder, int n) {
  std::vector<std::pair<std::string, std::string>> members;
  for (int i = 0; i < n; ++i) members.emplace_back(fmt::format("archive/data/{}", i), "");
  const fs::path file = folder / "a.distcp";
  write_text(file, zip(members));
  return [=] {
    const RegularFile opened(file, kLargestFile);
    const ZipArchive archive(opened, file, {0, opened.size()});
    EXPECT_TRUE(archive.has(fmt::format("data/{}", n - 1)));
  };
}

RunRecord record_of_job(int ranks) {
  RunRecord run;
  run.environment.started_utc = "2026-11-20T18:52:46Z";
  JobRecord& job = run.jobs.emplace_back();
  job.id = "3f9c2a";
  job.title = "train.py";
  job.folder = "job";
  job.world_size = job.processes = ranks;
  for (int rank = 0; rank < ranks; ++rank) job.exits.emplace_back().rank = rank;
  run.planned = counts_of(run);
  return run;
}

Work read_pack(const fs::path& folder, const std::vector<std::string>& members) {
  const fs::path file = folder / "run.tar.gz";
  ArchiveWriter writer(file);
  writer.add_text("run/record.json", render_json(record_of_job(1)));
  for (const std::string& member : members) writer.add_text("run/" + member, "");
  writer.add_text("run/pack.json", render_label({}));
  writer.finish();
  return [=] { EXPECT_TRUE(OpenedRun(file).has_files()); };
}

Work pack_of_members(const fs::path& folder, int n) {
  std::vector<std::string> members;
  for (int i = 0; i < n; ++i) members.push_back(fmt::format("other/{}/{}", i % 97, i));
  return read_pack(folder, members);
}

Work pack_of_snapshots(const fs::path& folder, int n) {
  std::vector<std::string> members;
  for (int i = 1; i <= n; ++i) members.push_back(fmt::format("job/rank-0.step-{}.safetensors", i));
  return read_pack(folder, members);
}

Observation row(std::int64_t step, const std::string& name) {
  Observation observation;
  observation.step = step;
  observation.name = name;
  observation.dtype = "float32";
  return observation;
}

Work journal_of_steps(const fs::path& folder, int n) {
  const fs::path file = journal_file(folder, 0);
  JournalWriter writer(file);
  for (int step = 1; step <= n; ++step) writer.append(row(step, "w"));
  writer.finish();
  return [=] {
    for (const IndexUse use : {IndexUse::believed, IndexUse::ignored}) {
      const JournalReader reader(file, use);
      EXPECT_EQ(reader.rows(), n);
      for (const JournalStep& step : reader.steps()) reader.read(step);
    }
  };
}

Work journal_of_tensors(const fs::path& folder, int n) {
  const fs::path file = journal_file(folder, 0);
  JournalWriter writer(file);
  for (int i = 0; i < n; ++i) writer.append(row(1, fmt::format("m.{}.w", i)));
  writer.finish();
  return [=] { EXPECT_EQ(JournalReader(file).tensors().size(), static_cast<std::size_t>(n)); };
}

/// Of one step that has a replica group for each tensor.
Work journal_of_groups(const fs::path& folder, int n) {
  const fs::path file = journal_file(folder, 0);
  JournalWriter writer(file);
  std::vector<Observation> rows;
  for (int i = 0; i < n; ++i) {
    rows.push_back(row(1, "w"));
    rows.back().replica_group = fmt::format("group {}", i);
  }
  std::vector<const Observation*> pointers;
  for (const Observation& one : rows) pointers.push_back(&one);
  writer.append(pointers);
  writer.finish();
  return [=] {
    EXPECT_EQ(JournalReader(file, IndexUse::ignored).rows(), n);
    EXPECT_EQ(JournalReader(file).steps().at(0).summary.groups.size(), static_cast<std::size_t>(n));
  };
}

Work sketches_of_steps(const fs::path& folder, int n) {
  const fs::path file = sketch_file(folder, 0);
  SketchWriter writer(file, "");
  for (int step = 1; step <= n; ++step) writer.append(step, {{0, Sketch()}});
  return [=] {
    const SketchReader reader(file);
    for (int step = 1; step <= n; ++step) EXPECT_EQ(reader.at(step, 0).size(), 1U);
  };
}

Work log_of_collectives(const fs::path& folder, int n) {
  const fs::path file = collective_log_file(folder, 0);
  CollectiveLog log(file, 0);
  Collective call;
  call.operation = "allreduce";
  for (int i = 0; i < n; ++i) {
    call.number = static_cast<std::uint64_t>(i);
    log.enter(call);
  }
  return [=] { EXPECT_EQ(read_collective_log(file).size(), static_cast<std::size_t>(n)); };
}

Work steps_of_ranks(const fs::path& folder, int n) {
  for (int rank = 0; rank < n; ++rank) {
    JournalWriter writer(journal_file(folder, rank));
    for (int i = 0; i < 3; ++i) {
      Observation one = row(1, fmt::format("m.{}.w", i));
      if (i == 0) one.replica_group = group_of_one(rank);
      writer.append(one);
    }
  }
  return [=] { EXPECT_TRUE(StepReader(folder, n).at(1)); };
}

/// Ranks of a job that never agree, with their values.
Work tables_of_ranks(const fs::path&, int n) {
  std::vector<StepView::Rank> ranks(static_cast<std::size_t>(n));
  for (int rank = 0; rank < n; ++rank) {
    StepView::Rank& one = ranks[static_cast<std::size_t>(rank)];
    Observation& seen = one.observations.emplace_back(row(1, "w"));
    seen.phase = Phase::post_step;
    seen.local_shape = {1};
    seen.digest = {static_cast<std::uint64_t>(rank), 1};
    const auto value = static_cast<float>(rank);
    const auto bytes = std::as_bytes(std::span(&value, 1));
    one.tensors[snapshot_key(seen)] = {DType::float32, {1}, {bytes.begin(), bytes.end()}};
  }
  const auto step = std::make_shared<const StepView>(1, std::move(ranks));
  TableSpec drift;
  drift.quantity = Quantity::drift;
  drift.kind = Kind::parameter;
  drift.phase = Phase::post_step;
  TableSpec norm = drift;
  norm.quantity = Quantity::norm;
  return [=] {
    const std::set<std::string> names{"w"};
    EXPECT_EQ(measured_entry(drift, *step, &names).values.at(0), n - 1);
    EXPECT_EQ(measured_entry(norm, *step, &names).values.size(), static_cast<std::size_t>(n));
  };
}

Work manifest_of_ranks(const fs::path& folder, int n) {
  for (int rank = 0; rank < n; ++rank) write_text(rank_file(folder, rank, ".status.json"), "{}");
  const ManifestSeal seal = write_manifest(folder, n, "job");
  return [=] { EXPECT_TRUE(manifest_faults(folder, n, "job", seal).empty()); };
}

/// Every second rank cannot answer. Each is in two groups.
Work stall_of_ranks(const fs::path& folder, int n) {
  Stall stall;
  stall.limit_s = 3;
  stall.world_size = n;
  stall.is_open = true;
  std::vector<int> all(static_cast<std::size_t>(n));
  for (int rank = 0; rank < n; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  for (int rank = 0; rank < n; ++rank) {
    const bool answers = rank % 2 == 0;
    stall.ranks.push_back(
        {rank, answers ? StalledState::answered : StalledState::silent, 4, "", {1, 1}});
    if (!answers) continue;
    const std::string pair = fmt::format("{} pair", rank / 2 + 1);
    Json calls = Json::array();
    for (const std::string& group : {std::string("world"), pair}) {
      calls.push_back({{"group", group},
                       {"number", 1},
                       {"operation", "allreduce"},
                       {"dtype", "float"},
                       {"tensors", 1},
                       {"elements", 1},
                       {"is_complete", false},
                       {"age_ns", 5},
                       {"site", "train.py:4"},
                       {"step", 4},
                       {"shape", "[1]"}});
    }
    const Json answer = {
        {"request", 0},
        {"is_joining", false},
        {"awaits_message", false},
        {"stands_s", 0.5},
        {"threads", Json::array()},
        {"calls", calls},
        {"groups",
         {{{"name", "0"},
           {"title", "world"},
           {"ranks", rank < 2 ? all : std::vector<int>{rank, rank + 1}},
           {"first", 1}},
          {{"name", pair}, {"title", pair}, {"ranks", {rank, rank + 1}}, {"first", 1}}}}};
    write_text(rank_file(folder, rank, kKeptAnswerEnding), answer.dump());
  }
  write_stall(folder, stall);
  return [=] { EXPECT_EQ(stalled_calls({folder}).size(), static_cast<std::size_t>(n)); };
}

/// Each name is in one text of its own.
Work texts_with_names(const fs::path& /*folder*/, int n) {
  return [=] {
    Redaction redaction({"^secret"});
    for (int i = 0; i < n; ++i) redaction.learn(fmt::format("secret.{}.w", i));
    for (int i = 0; i < n; ++i) {
      const std::string text = redaction.text(fmt::format("rank 1 differs in secret.{}.w.", i));
      EXPECT_EQ(text, fmt::format("rank 1 differs in name-{}.", i + 1));
    }
  };
}

Work tables_of_runs(const fs::path& /*folder*/, int n) {
  std::vector<RunToJoin> runs;
  for (int i = 0; i < n; ++i) {
    RunToJoin& one = runs.emplace_back();
    one.name = fmt::format("run-{}", i);
    one.folder = one.name;
    Table& table = one.run.tables.emplace_back();
    table.scenario = "job";
    table.spec.title = fmt::format("Table {}", i / 2);
  }
  return [=] { EXPECT_EQ(join_records(runs).tables.size(), static_cast<std::size_t>(n)); };
}

Work record_of_cells(const fs::path& folder, int n) {
  RunRecord run;
  for (int i = 0; i < n; ++i) {
    for (const Role role : {Role::reference, Role::buggy}) {
      CellRecord& cell = run.cells.emplace_back();
      cell.cell.scenario = fmt::format("scenario-{}", i);
      cell.cell.variant = role == Role::buggy ? "buggy" : "reference";
      cell.cell.role = role;
      cell.cell.world_size = 1;
      cell.cell.steps = 1;
      cell.folder = folder_of(cell.cell);
      cell.processes = role == Role::buggy ? 1 : 1 + kPerturbedReferences;
      for (int rank = 0; rank < cell.processes; ++rank) cell.exits.emplace_back().rank = rank;
      if (role == Role::buggy) cell.reference_folder = run.cells[run.cells.size() - 2].folder;
    }
  }
  run.planned = counts_of(run);
  write_text(folder / "record.json", render_json(run));
  return [=] { EXPECT_EQ(load_record(folder).cells.size(), static_cast<std::size_t>(2 * n)); };
}

Work record_of_variables(const fs::path& folder, int n) {
  RunRecord run = record_of_job(1);
  for (int i = 0; i < n; ++i) {
    run.environment.variables.emplace_back(fmt::format("NCCL_{:07}", i), "1");
  }
  write_text(folder / "record.json", render_json(run));
  return [=] {
    EXPECT_EQ(load_record(folder).environment.variables.size(), static_cast<std::size_t>(n));
  };
}

Work record_of_ranks(const fs::path& folder, int n) {
  write_text(folder / "record.json", render_json(record_of_job(n)));
  return
      [=] { EXPECT_EQ(load_record(folder).jobs.at(0).exits.size(), static_cast<std::size_t>(n)); };
}

Work folder_of_runs(const fs::path& folder, int n) {
  for (int i = 0; i < n; ++i) {
    const fs::path run = folder / fmt::format("run-{}", i);
    fs::create_directory(run);
    write_text(run / "record.json", render_json(record_of_job(1)));
  }
  return [=] { EXPECT_EQ(stored_runs(folder).size(), static_cast<std::size_t>(n)); };
}

Work list_of_known_findings(const fs::path& folder, int n) {
  const fs::path file = folder / "known.txt";
  std::string text;
  std::vector<std::string> found;
  std::set<std::string> labels;
  for (int i = 0; i < n; ++i) {
    const std::string label = fmt::format("scenario-{} variant [w2]", i);
    labels.insert(label);
    found.push_back(fmt::format("weights-differ | {} | m.{}.w", label, i));
    text += found.back() + "\n";
  }
  write_text(file, text);
  return [=] { EXPECT_TRUE(KnownFindings::read(file).stale(labels, found).empty()); };
}

std::vector<Reader> readers() {
  return {{"SnapshotOfTensors", 500, snapshot_of_tensors},
          {"CheckpointOfShards", 300, checkpoint_of_shards},
          {"IndexOfFiles", 1000, index_of_files},
          {"DistributedOfTensors", 200, distributed_of_tensors},
          {"DistributedOfAttributes", 5000, distributed_of_attributes},
          {"DistributedOfDimensions", 300, distributed_of_dimensions},
          {"DistributedWithALongPath", 5000, distributed_with_a_long_path},
          {"DistributedOfOneChunk", 400, distributed_of_one_chunk},
          {"DistributedOfColumns", 500, distributed_of_columns},
          {"DistributedOfAGrid", 500, distributed_of_a_grid},
          {"ZipOfMembers", 3000, zip_of_members},
          {"PackOfMembers", 500, pack_of_members},
          {"PackOfSnapshots", 50, pack_of_snapshots},
          {"JournalOfSteps", 500, journal_of_steps},
          {"JournalOfTensors", 3000, journal_of_tensors},
          {"JournalOfGroups", 1500, journal_of_groups},
          {"SketchesOfSteps", 500, sketches_of_steps},
          {"LogOfCollectives", 10000, log_of_collectives},
          {"StepsOfRanks", 30, steps_of_ranks},
          {"TablesOfRanks", 500, tables_of_ranks},
          {"ManifestOfRanks", 100, manifest_of_ranks},
          {"StallOfRanks", 60, stall_of_ranks},
          {"TextsWithNames", 3000, texts_with_names},
          {"TablesOfRuns", 3000, tables_of_runs},
          {"RecordOfCells", 30, record_of_cells},
          {"RecordOfVariables", 2000, record_of_variables},
          {"RecordOfRanks", 60, record_of_ranks},
          {"FolderOfRuns", 20, folder_of_runs},
          {"ListOfKnownFindings", 2000, list_of_known_findings}};
}

class LinearReader : public testing::TestWithParam<Reader> {};

TEST_P(LinearReader, TakesTimeInProportionToItsInput) {
  const Slope slope = slope_of(GetParam().make, GetParam().n);
  RecordProperty("slope", fmt::format("{:.2f}", slope.exponent));
  RecordProperty("largest_ms", fmt::format("{:.1f}", 1000 * slope.largest_s));
  EXPECT_LE(slope.exponent, kSteepest)
      << fmt::format("{} things: {:.3f} s", slope.n, slope.largest_s);
}

/// Adds up `times` numbers.
void add_up(int times) {
  volatile double sum = 0;
  for (int i = 0; i < times; ++i) sum = sum + i;
}

TEST(SlopeOfACost, IsSteepForASquareNextToALinearTerm) {
  const auto exponent_of = [](int linear, int square) {
    const MakeWork make = [=](const fs::path&, int n) -> Work {
      return [=] { add_up(n * (linear + square * n)); };
    };
    return slope_of(make, 20).exponent;
  };
  EXPECT_LE(exponent_of(1000, 0), kSteepest);
  EXPECT_GT(exponent_of(400, 10), kSteepest);
  EXPECT_GT(exponent_of(0, 10), kSteepest);
}

INSTANTIATE_TEST_SUITE_P(Every, LinearReader, testing::ValuesIn(readers()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace lockstep
