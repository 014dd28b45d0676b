#include "tests/fuzz/readers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/compare_elements.h"
#include "harness/checkpoint/model_names.h"
#include "harness/checkpoint/pickle.h"
#include "harness/checkpoint/read_checkpoint.h"
#include "harness/checkpoint/saved_tensor.h"
#include "harness/checkpoint/zip_archive.h"
#include "harness/cli/settings_file.h"
#include "harness/job/process_notes.h"
#include "harness/job/rank_facts.h"
#include "harness/job/stall.h"
#include "harness/launch/log_tail.h"
#include "harness/pack/archive.h"
#include "harness/pack/pack_label.h"
#include "harness/pack/redaction.h"
#include "harness/pack/scratch_folder.h"
#include "harness/pack/stage.h"
#include "harness/record/collective_log.h"
#include "harness/record/digest.h"
#include "harness/record/environment.h"
#include "harness/record/journal.h"
#include "harness/record/journal_segments.h"
#include "harness/record/manifest.h"
#include "harness/record/rank_exit.h"
#include "harness/record/rank_files.h"
#include "harness/record/rank_status.h"
#include "harness/record/safetensors_file.h"
#include "harness/record/samples.h"
#include "harness/record/sketch.h"
#include "harness/record/snapshots.h"
#include "harness/record/sound_record.h"
#include "harness/record/stall.h"
#include "harness/record/stalled_calls.h"
#include "harness/record/step_index.h"
#include "harness/record/tensor_table.h"
#include "harness/record/watch_control.h"
#include "harness/record/watched_progress.h"
#include "reference/published_table.h"
#include "reports/base/csv_text.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "reports/base/secrets.h"
#include "reports/record/json.h"
#include "reports/record/known_findings.h"
#include "tests/fuzz/literal_files.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestInput = kMebibyte;

/// Of this process.
const fs::path& scratch() {
  static const ScratchFolder folder;
  return folder.path();
}

void write(const fs::path& file, std::string_view bytes) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::abort();  // the disk is full
  }
  ::close(fd);
}

/// The bytes as a file, in a folder of its own that may hold others.
fs::path as_file(const char* folder, std::string_view name, std::string_view bytes) {
  const fs::path inside = scratch() / folder;
  static std::set<std::string> made;
  if (made.insert(folder).second) fs::create_directory(inside);
  write(inside / name, bytes);
  return inside / name;
}

/// A file next to it, which stays as it is.
void beside(const char* folder, const char* name, std::string (*literal)()) {
  static std::set<std::string> written;
  if (written.insert(std::string(folder) + "/" + name).second) as_file(folder, name, literal());
}

/// A second reader of the same file, whether the first one refuses it or not.
void also(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error&) {
  }
}

void read_csv_text(std::string_view bytes) {
  static const std::vector<std::string_view> columns{"name", "count", "value"};
  const fs::path file = as_file("csv-text", "table.csv", bytes);
  const CsvKind kind{columns, TornTail::is_left_out, kLargestInput, true};
  read_csv(file, kind, [&](const CsvRow& row) {
    unescape_cell(row.cells[0]);
    to_int(row, 1, file, columns);
    to_double(row, 2, file, columns);
  });
}

void read_journal_at(const fs::path& file, IndexUse use) {
  const JournalReader reader(file, use);
  for (const JournalStep& step : reader.steps()) {
    try {
      reader.read(step);
    } catch (const StaleIndex&) {
    }
  }
}

/// The bytes as one of the files of a journal; the others are as they were written. Returns the
/// file of its rows.
fs::path as_file_of_journal(const char* folder, const char* name, std::string_view bytes) {
  static const std::vector<LiteralFile> files = literal_journal();
  static std::set<std::string> written;
  if (written.insert(folder).second) {
    for (const LiteralFile& file : files) as_file(folder, file.name, file.bytes);
  }
  return as_file(folder, name, bytes).parent_path() / "rank-0.csv";
}

void read_any_journal(std::string_view bytes) {
  const fs::path file = as_file_of_journal("journal", "rank-0.csv", bytes);
  has_journal(file);
  also([&] { read_journal_at(file, IndexUse::checked); });
  also([&] {
    thin_journal(as_file("journal", "other.csv", bytes), [](auto step) { return step > 1; });
  });
  read_journal_at(file, IndexUse::ignored);
}

void read_any_tensor_table(std::string_view bytes) {
  const fs::path file = as_file_of_journal("tensor-table", "rank-0.tensors.csv", bytes);
  also([&] { read_journal_at(file, IndexUse::ignored); });
  read_tensor_table(tensor_table_file(file));
}

void read_any_step_index(std::string_view bytes) {
  const fs::path file = as_file_of_journal("step-index", "rank-0.index", bytes);
  also([&] { read_journal_at(file, IndexUse::checked); });
  also([&] {
    StepIndexReader reader(index_file(file));
    reader.completed();
    reader.begun();
  });
  read_step_index(index_file(file));
}

void read_sketches(std::string_view bytes) {
  const fs::path file = as_file("sketches", "rank-0.sketches", bytes);
  also([&] {
    thin_sketches(as_file("sketches", "other", bytes), [](auto step) { return step > 1; });
  });
  if (!has_sketches(file)) return;
  const SketchReader reader(file);
  for (const std::int64_t step : {0, 1, 2}) {
    for (const auto& [row, sketch] : reader.at(step, 7)) norm_of(sketch);
  }
}

void read_any_rank_status(std::string_view bytes) {
  read_rank_status(as_file("rank-status", "rank-0.status.json", bytes));
}

void read_any_rank_exit(std::string_view bytes) {
  read_rank_exit(as_file("rank-exit", "rank-0.exit.json", bytes).parent_path(), 0);
}

void read_any_world(std::string_view bytes) {
  read_world(as_file("world", "world.json", bytes).parent_path());
}

/// The facts of a rank that also trained in another process. Each file may be changed alone.
void read_facts(const char* folder, const char* name, std::string_view bytes) {
  beside(folder, "rank-0.watch.json", literal_facts);
  beside(folder, "rank-0.elsewhere.json", literal_elsewhere);
  const fs::path inside = as_file(folder, name, bytes).parent_path();
  also([&] { errors_without_step(inside); });
  read_rank_facts(inside, 0);
}

void read_any_facts(std::string_view bytes) { read_facts("facts", "rank-0.watch.json", bytes); }

void read_elsewhere(std::string_view bytes) {
  read_facts("elsewhere", "rank-0.elsewhere.json", bytes);
}

void read_bystander(std::string_view bytes) {
  bystanders_in(as_file("bystander", "rank-2.bystander.json", bytes).parent_path());
}

void read_process_error(std::string_view bytes) {
  errors_without_step(as_file("process-error", "process-1.error.json", bytes).parent_path());
}

void read_record(std::string_view bytes) {
  const RunRecord run = read_json(std::string(bytes), "record.json");
  also([&] { require_sound(run, scratch()); });
  read_json(render_json(run), "record.json");
}

void read_any_stall(std::string_view bytes) {
  const fs::path folder = as_file("stall", "stall.json", bytes).parent_path();
  beside("stall", "rank-0.stalled.json", literal_answer);
  also([&] { stalled_calls({folder}); });
  const auto stall = read_stall(folder);
  if (!stall) return;
  std::vector<RankExit> exits(2);
  exits[1].rank = 1;
  add_stall(*stall, true, exits);
}

void read_stalled_calls(std::string_view bytes) {
  beside("stalled-calls", "stall.json", literal_stall);
  beside("stalled-calls", "rank-1.stalled.json", literal_answer);
  const fs::path folder = as_file("stalled-calls", "rank-0.stall.json", bytes).parent_path();
  static const Stall stall = read_stall(folder).value();
  also([&] { keep_answer(folder, 0, stall); });
  as_file("stalled-calls", "rank-0.stalled.json", bytes);
  stalled_calls({folder});
}

void read_ends_of_ranks(std::string_view bytes) {
  beside("ends", "rank-1.ended.json", literal_end);
  stalled_calls({as_file("ends", "rank-0.ended.json", bytes).parent_path()});
}

void read_stacks(std::string_view bytes) {
  const fs::path folder = as_file("stacks", "rank-0.stacks", bytes).parent_path();
  read_stack(folder, 0);
}

/// The bytes with the name of this machine at this place: files of others are left out.
std::string of_this_machine(std::string_view bytes, std::size_t place, const std::string& name) {
  std::string here(bytes);
  if (place + name.size() <= here.size()) here.replace(place, name.size(), name);
  return here;
}

void read_log(std::string_view bytes) {
  const fs::path file = as_file("collective-log", "collectives-0.bin", bytes);
  LiveCollectiveLog live(as_file("collective-log", "live", of_this_machine(bytes, 32, boot_id())));
  const std::uint64_t count = live.count();
  for (std::uint64_t seq = 0; seq < count; ++seq) live.at(seq);
  also([&] { collective_of_bytes(std::string(bytes), "a store"); });
  has_collective_log(file);
  read_log_of_rank(file);
}

/// With the seal that it would have: a record is changed as easily as the list.
void read_manifest(std::string_view bytes) {
  const fs::path folder = as_file_of_journal("manifest", "manifest.csv", bytes).parent_path();
  ManifestSeal seal;
  seal.bytes = static_cast<std::int64_t>(bytes.size());
  seal.digest = to_text(digest_run(std::as_bytes(std::span(bytes)), 0));
  manifest_faults(folder, 1, "a job", seal);
}

void read_progress(std::string_view bytes) {
  std::string id = boot_id();
  std::erase(id, '-');
  const std::uint64_t machine = std::strtoull(id.substr(0, 16).c_str(), nullptr, 16);
  const std::string name(reinterpret_cast<const char*>(&machine), sizeof machine);
  const fs::path folder =
      as_file("progress", "rank-0.progress", of_this_machine(bytes, 152, name)).parent_path();
  const auto ranks = read_all_progress(folder);
  is_elsewhere(1, ranks);
}

void read_control(std::string_view bytes) {
  const fs::path folder = as_file("watch-control", "watch.control", bytes).parent_path();
  WatchControl control(folder);
  control.keeps();
  control.observes(3);
  control.thinned_segments(3);
  control.ask_where();
}

/// The first byte: the number of samples.
void read_samples(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto count = static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(1);
  if (count != 0) bytes = bytes.substr(0, bytes.size() / count * count);
  digest_of_samples(std::as_bytes(std::span(bytes)), count);
}

void measure_all(const Checkpoint& checkpoint) {
  for (const CheckpointTensor& tensor : checkpoint.tensors) {
    measure_tensor(tensor);
    compare_elements(tensor, tensor);
  }
}

void read_safetensors_header(std::string_view bytes) {
  const fs::path file = as_file("safetensors", "model.safetensors", bytes);
  also([&] { is_checkpoint(file); });
  also([&] { measure_all(open_checkpoint(file)); });
  const SafetensorsFile opened(file, kLargestInput);
  for (const auto& [name, tensor] : opened.tensors()) opened.read(tensor);
}

void read_any_snapshot(std::string_view bytes) {
  read_snapshot(as_file("snapshot", "rank-0.step-1.safetensors", bytes));
}

/// Two files of shards, of which one is changed, in a folder.
void read_shards(std::string_view bytes) {
  beside("shards", "b.safetensors", literal_shard);
  measure_all(open_checkpoint(as_file("shards", "a.safetensors", bytes).parent_path()));
}

void read_safetensors_index(std::string_view bytes) {
  beside("safetensors-index", "a.safetensors", literal_safetensors);
  const fs::path folder =
      as_file("safetensors-index", "model.safetensors.index.json", bytes).parent_path();
  safetensors_files_of(folder);
}

void read_pickle(std::string_view bytes) {
  const Pickle pickle(bytes, "a file", [](std::string_view) { return true; });
  type_of(&pickle.root());
  attribute_of(&pickle.root(), "a");
}

void read_zip(std::string_view bytes) {
  const fs::path path = as_file("zip", "archive", bytes);
  const RegularFile file(path, kLargestInput);
  const ZipArchive archive(file, path, {0, file.size()});
  const ByteRange member = archive.member("data.pkl");
  file.read(member.begin, member.size);
}

/// A tensor of torch.save as a chunk of a distributed checkpoint that has just this one.
void read_torch_archive(std::string_view bytes) {
  const fs::path path = as_file("torch-archive", "__0_0.distcp", bytes);
  const RegularFile file(path, kLargestInput);
  const SavedTensor saved = read_saved_tensor(file, path, {0, file.size()});
  is_row_major(saved);
  CheckpointTensor tensor{"weight", saved.dtype, saved.shape, {}};
  const std::vector<std::int64_t> offsets(saved.shape.size(), 0);
  tensor.chunks.push_back({path, {0, file.size()}, true, offsets, saved.shape});
  measure_tensor(tensor);
}

void read_distributed_metadata(std::string_view bytes) {
  beside("distributed-metadata", "__0_0.distcp", literal_distributed_data);
  const fs::path folder = as_file("distributed-metadata", ".metadata", bytes).parent_path();
  measure_all(open_checkpoint(folder));
}

/// An empty folder for what a reader writes.
fs::path emptied(const char* name) {
  const fs::path folder = scratch() / name;
  fs::remove_all(folder);
  fs::create_directory(folder);
  return folder;
}

void read_pack_at(const fs::path& file) {
  constexpr ArchiveLimits kLimits{
      .bytes = 16 * kMebibyte, .bytes_of_member = kMebibyte, .members = 64};
  also([&] { read_member(file, "record.json", kLimits); });
  unpack(file, emptied("unpacked"), kLimits);
}

void read_pack(std::string_view bytes) { read_pack_at(as_file("pack", "run.tar.gz", bytes)); }

/// The members of a pack before they were compressed.
void read_members_of_pack(std::string_view bytes) {
  read_pack_at(as_file("pack-members", "run.tar.gz", literal_gzip(bytes)));
}

void read_pack_label(std::string_view bytes) {
  read_label(as_file("pack-label", kPackLabel, bytes).parent_path());
}

std::vector<std::string> lines_of(std::string_view bytes) {
  std::vector<std::string> lines;
  std::istringstream text{std::string(bytes)};
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// As a text, as the words of a command and as a name with its value, which are the first two
/// lines.
void mask_all(std::string_view bytes) {
  const std::string masked = mask_secrets(bytes);
  if (mask_secrets(masked) != masked) throw std::logic_error("masked twice is not masked once");
  std::vector<std::string> lines = lines_of(bytes);
  mask_command(lines);
  mask_name(bytes);
  lines.resize(2);
  mask_value(lines[0], lines[1]);
}

/// The first line: what is replaced. The others are names, and all of them a text.
void redact_all(std::string_view bytes) {
  std::vector<std::string> names = lines_of(bytes);
  if (names.empty()) return;
  Redaction redaction({names[0]});
  names.erase(names.begin());
  for (const std::string& name : names) redaction.learn(name);
  for (const std::string& name : names) redaction.name(name);
  redaction.text(std::string(bytes));
}

/// A file with texts of a job that is packed.
void read_staged_texts(std::string_view bytes) {
  fs::create_directory(scratch() / "texts");
  Execution job;
  job.folder = "job";
  job.processes = 1;
  as_file("texts/job", "rank-0.status.json", bytes);
  stage_files(job, scratch() / "texts", emptied("staged-texts"));
}

/// Where a rank of a job stood still that is packed with other names.
void read_staged_answer(std::string_view bytes) {
  fs::create_directory(scratch() / "answers");
  JobRecord job;
  job.folder = "job";
  job.processes = 1;
  as_file("answers/job", "rank-0.stalled.json", bytes);
  beside("answers/job", "stall.json", literal_stall);
  Redaction redaction({"main|world"});
  also([&] { learn_names_in_files(job, scratch() / "answers", redaction); });
  stage_redacted_files(job, scratch() / "answers", emptied("staged-answers"), redaction);
}

void read_log_tail(std::string_view bytes) { log_tail(as_file("log-tail", "rank-0.log", bytes)); }

void read_known_findings(std::string_view bytes) {
  const KnownFindings known = KnownFindings::read(as_file("known-findings", "known.txt", bytes));
  known.in_words({"job"}, {"job: ranks-differ"});
}

void read_published(std::string_view bytes) {
  const PublishedTable table = read_published_table(as_file("published-table", "table.csv", bytes));
  for (const double value : {0.0, 1.5, -2e300}) {
    compare(table, [&](const PublishedValue&) { return Measured{{value, value}, true}; });
  }
}

void read_settings(std::string_view bytes) {
  read_watch_settings(as_file("settings", kWatchSettings, bytes));
}

/// Names of two checkpoints, a line each: those that begin with a blank are of the second one.
void read_model_names(std::string_view bytes) {
  std::set<std::string> a, b;
  for (const std::string& line : lines_of(bytes)) {
    if (line.starts_with(' ')) {
      b.insert(line.substr(1));
    } else {
      a.insert(line);
    }
    is_of_optimizer(line);
    without_wrappers(line);
  }
  const auto prefixes = model_prefixes(a, b);
  for (const std::string& name : a) {
    if (name.starts_with(prefixes[0])) model_name(name, prefixes[0]);
  }
}

constexpr std::array kReaders{
    FuzzedReader{"bystander", read_bystander},
    FuzzedReader{"collective-log", read_log},
    FuzzedReader{"csv-text", read_csv_text},
    FuzzedReader{"distributed-metadata", read_distributed_metadata},
    FuzzedReader{"elsewhere", read_elsewhere},
    FuzzedReader{"ends", read_ends_of_ranks},
    FuzzedReader{"facts", read_any_facts},
    FuzzedReader{"journal", read_any_journal},
    FuzzedReader{"known-findings", read_known_findings},
    FuzzedReader{"log-tail", read_log_tail},
    FuzzedReader{"manifest", read_manifest},
    FuzzedReader{"model-names", read_model_names},
    FuzzedReader{"pack", read_pack},
    FuzzedReader{"pack-label", read_pack_label},
    FuzzedReader{"pack-members", read_members_of_pack},
    FuzzedReader{"pickle", read_pickle},
    FuzzedReader{"process-error", read_process_error},
    FuzzedReader{"progress", read_progress},
    FuzzedReader{"published-table", read_published},
    FuzzedReader{"rank-exit", read_any_rank_exit},
    FuzzedReader{"rank-status", read_any_rank_status},
    FuzzedReader{"record", read_record},
    FuzzedReader{"redaction", redact_all},
    FuzzedReader{"safetensors", read_safetensors_header},
    FuzzedReader{"safetensors-index", read_safetensors_index},
    FuzzedReader{"samples", read_samples},
    FuzzedReader{"secrets", mask_all},
    FuzzedReader{"settings", read_settings},
    FuzzedReader{"shards", read_shards},
    FuzzedReader{"sketches", read_sketches},
    FuzzedReader{"snapshot", read_any_snapshot},
    FuzzedReader{"stacks", read_stacks},
    FuzzedReader{"staged-answer", read_staged_answer},
    FuzzedReader{"staged-texts", read_staged_texts},
    FuzzedReader{"stall", read_any_stall},
    FuzzedReader{"stalled-calls", read_stalled_calls},
    FuzzedReader{"step-index", read_any_step_index},
    FuzzedReader{"tensor-table", read_any_tensor_table},
    FuzzedReader{"torch-archive", read_torch_archive},
    FuzzedReader{"watch-control", read_control},
    FuzzedReader{"world", read_any_world},
    FuzzedReader{"zip", read_zip},
};

}  // namespace

std::span<const FuzzedReader> fuzzed_readers() { return kReaders; }

const FuzzedReader* fuzzed_reader(std::string_view name) {
  const auto found = std::find_if(kReaders.begin(), kReaders.end(),
                                  [&](const FuzzedReader& one) { return one.name == name; });
  return found == kReaders.end() ? nullptr : &*found;
}

bool accepts(const FuzzedReader& reader, std::string_view bytes) {
  try {
    reader.read(bytes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace lockstep
