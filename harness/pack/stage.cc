#include "harness/pack/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/pack/masked_record.h"
#include "harness/record/collective_log.h"
#include "harness/record/file_digest.h"
#include "harness/record/flat_json.h"
#include "harness/record/journal.h"
#include "harness/record/journal_segments.h"
#include "harness/record/rank_files.h"
#include "harness/record/run_folder.h"
#include "harness/record/sketch.h"
#include "harness/record/snapshots.h"
#include "harness/record/stall.h"
#include "harness/record/step_index.h"
#include "harness/record/tensor_table.h"
#include "harness/record/texts_of_ranks.h"
#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// Of the files `rank-N` + ending that a pack holds unless names are replaced.
constexpr std::array<std::string_view, 2> kEndings{".tensors.csv", ".index"};
using Json = nlohmann::json;

/// What the hook of a rank wrote that stands still, without secrets. Every error names the file and
/// the place in it.
class Answer {
 public:
  explicit Answer(const fs::path& file) : path_(file.string()) {
    json =
        parse_flat_json(read_text(path_, kLargestAnswer), path_, "the answer", kMostLevelsOfTexts);
    if (!json.is_object()) throw refusal("", json);
    mask_document(json);
  }

  /// Calls `visit` with each object of a list, which must be there, and with its place.
  template <class Visit>
  void for_each(const char* list, const Visit& visit) {
    Json& items = json[list];
    if (!items.is_array()) throw refusal(list, items);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string place = fmt::format("{}[{}]", list, i);
      if (!items[i].is_object()) throw refusal(place, items[i]);
      visit(items[i], place);
    }
  }

  /// A text of such an object.
  std::string& text(Json& object, const std::string& place, const char* field) const {
    Json& value = object[field];
    if (value.is_string()) return value.get_ref<std::string&>();
    throw refusal(place + "." + field, value);
  }

  Json json;

 private:
  Error refusal(const std::string& place, const Json& found) const {
    return malformed(place.empty() ? path_ : path_ + ": " + place, 0, 0,
                     "what the hook of a watched rank writes",
                     found.is_array()    ? "an array"
                     : found.is_object() ? "an object"
                                         : found.dump());
  }

  std::string path_;
};

/// Whether a file is there and may be packed.
bool is_there(const fs::path& file) {
  std::error_code failure;
  const fs::file_status status = fs::symlink_status(file, failure);
  if (!fs::exists(status)) return false;
  if (fs::is_regular_file(status)) return true;
  throw unreadable(file.string(), "it is no file, and a pack holds files only",
                   "Remove it, or put a copy of the file in its place");
}

/// Links a file of `source` into `folder`, if it is there.
void link_file(const std::string& name, const fs::path& source, const fs::path& folder) {
  if (!is_there(source / name)) return;
  std::error_code failure;
  fs::create_symlink(fs::absolute(source / name), folder / name, failure);
  if (failure) throw unwritable((folder / name).string(), failure.message());
}

/// Links a file that holds texts into `folder`, or puts a masked copy of it there.
void stage_texts(const std::string& name, const fs::path& source, const fs::path& folder) {
  if (!is_there(source / name)) return;
  const std::string text = read_text((source / name).string(), kLargestTexts);
  const std::string without_secrets = masked_text_of_file(name, text);
  if (without_secrets == text) return link_file(name, source, folder);
  write_whole_file(folder / name, without_secrets);
}

/// The names of the snapshots in a folder.
std::vector<std::string> snapshots_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename();
    const bool is_of_rank = name.starts_with("rank-") && name.find(".step-") != name.npos;
    if (is_of_rank && name.ends_with(".safetensors")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The replica group of a shard is Lockstep's own word.
bool is_of_one_rank(const std::string& group) {
  int rank = 0;
  constexpr std::string_view kRank = "rank ";
  if (!group.starts_with(kRank)) return false;
  const char* const end = group.data() + group.size();
  const auto [rest, failure] = std::from_chars(group.data() + kRank.size(), end, rank);
  return failure == std::errc() && rest == end && group == group_of_one(rank);
}

ObservedTensor redacted(ObservedTensor tensor, Redaction& redaction) {
  tensor.name = redaction.name(tensor.name);
  if (!is_of_one_rank(tensor.replica_group)) {
    tensor.replica_group = redaction.name(tensor.replica_group);
  }
  tensor.not_comparable = redaction.text(tensor.not_comparable);
  return tensor;
}

void write_table(const TensorTable& table, const fs::path& file, Redaction& redaction) {
  TensorTableWriter writer(file, table.identity);
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    if (writer.number_of(redacted(table.tensors[i], redaction)) != i) {
      throw internal_error("two tensors have one pseudonym");
    }
  }
}

/// The index of a journal that lies next to its new tensor table.
void write_index(const fs::path& journal) {
  const JournalReader reader(journal, IndexUse::ignored);
  StepIndexWriter writer(index_file(journal), reader.identity());
  for (const JournalStep& step : reader.steps()) {
    IndexedStep entry = step;
    const RegularFile rows(reader.file_of(step), kLargestJournal);
    entry.checksum = digest_of(rows, step.offset, step.bytes);
    writer.append(entry);
  }
}

/// Whether an index can be written from the rows: they must all be there. Throws Error (usage) if
/// the old one does not fit.
bool can_be_indexed(const fs::path& journal) {
  const JournalReader reader(journal);
  if (!reader.index_fault().empty()) throw Error(Error::Kind::usage, reader.index_fault());
  return reader.thinned_steps().empty();
}

/// Links the segments of a journal and its sketches.
void link_rows(int rank, const fs::path& source, const fs::path& folder) {
  const fs::path journal = journal_file(source, rank);
  const int segments = count_segments(journal);
  for (int number = 1; number <= segments; ++number) {
    for (const fs::path& first : {journal, sketch_file(source, rank)}) {
      link_file(segment_file(first, number).filename(), source, folder);
    }
  }
}

void stage_journal(int rank, const fs::path& source, const fs::path& folder, Redaction& redaction) {
  const fs::path journal = journal_file(source, rank);
  const fs::path staged = journal_file(folder, rank);
  if (!is_there(journal)) return;
  link_rows(rank, source, folder);
  if (!has_journal(journal) || !is_there(tensor_table_file(journal))) return;
  write_table(read_tensor_table(tensor_table_file(journal)), tensor_table_file(staged), redaction);
  if (!is_there(index_file(journal))) return;
  if (can_be_indexed(journal)) write_index(staged);
}

/// "0/pre_step/gradient/weight" with another name.
std::string redacted_key(const std::string& key, Redaction& redaction) {
  std::size_t begin = 0;
  for (int part = 0; part < 3; ++part) begin = key.find('/', begin) + 1;
  return key.substr(0, begin) + redaction.name(key.substr(begin));
}

void stage_snapshot(const std::string& name, const fs::path& source, const fs::path& folder,
                    Redaction& redaction) {
  if (!is_there(source / name)) return;
  Snapshot snapshot = read_snapshot(source / name);
  std::map<std::string, SnapshotTensor> tensors;
  for (auto& [key, tensor] : snapshot.tensors) {
    tensors.emplace(redacted_key(key, redaction), std::move(tensor));
  }
  write_safetensors(folder / name, tensors, snapshot.identity);
}

/// An answer of a rank that stands still, or its end. Stacks are left out: the report shows one
/// place of each.
void stage_answer(const fs::path& file, const fs::path& staged, Redaction& redaction) {
  if (!is_there(file)) return;
  Answer answer(file);
  const auto redact_texts = [&](const char* list, std::initializer_list<const char*> fields) {
    answer.for_each(list, [&](Json& object, const std::string& place) {
      for (const char* const field : fields) {
        std::string& text = answer.text(object, place, field);
        text = redaction.text(text);
      }
    });
  };
  redact_texts("groups", {"title", "name"});
  redact_texts("calls", {"group", "site"});
  redact_texts("threads", {"function", "site"});
  Json threads = Json::array();
  for (const Json& thread : answer.json["threads"]) {
    threads.push_back({{"name", ""},
                       {"function", thread["function"]},
                       {"site", thread["site"]},
                       {"stack", Json::array()}});
  }
  answer.json["threads"] = threads;
  answer.json["failure"] = "";
  write_whole_file(staged, answer.json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// Where the ranks stood still.
void stage_stall(const fs::path& source, const fs::path& folder, Redaction& redaction) {
  auto stall = read_stall(source);
  if (!stall) return;
  for (StalledRank& rank : stall->ranks) {
    rank.place = redaction.text(rank.place);
    rank.stack.clear();
    stage_answer(rank_file(source, rank.rank, kKeptAnswerEnding),
                 rank_file(folder, rank.rank, kKeptAnswerEnding), redaction);
  }
  write_stall(folder, *stall);
}

void learn_answer(const fs::path& file, Redaction& redaction) {
  if (!is_there(file)) return;
  Answer answer(file);
  answer.for_each("groups", [&](Json& group, const std::string& place) {
    redaction.learn(answer.text(group, place, "title"));
  });
  answer.for_each("calls", [&](Json& call, const std::string& place) {
    learn_place(answer.text(call, place, "site"), redaction);
  });
}

void learn_names_of_rank(int rank, const fs::path& folder, Redaction& redaction) {
  const fs::path table = tensor_table_file(journal_file(folder, rank));
  if (is_there(table)) {
    for (const ObservedTensor& tensor : read_tensor_table(table).tensors) {
      redaction.learn(tensor.name);
      if (!is_of_one_rank(tensor.replica_group)) redaction.learn(tensor.replica_group);
    }
  }
  learn_answer(rank_file(folder, rank, kKeptAnswerEnding), redaction);
  learn_answer(rank_file(folder, rank, kEndEnding), redaction);
}

}  // namespace

void stage_files(const Execution& execution, const fs::path& source, const fs::path& folder) {
  const fs::path from = source / execution.folder;
  const fs::path to = folder / execution.folder;
  make_folders(to);
  const auto stage_all = [&](std::string_view ending, const auto& stage_one) {
    for (const int rank : ranks_with_file(from, ending)) {
      if (rank < execution.processes) stage_one(rank_file(from, rank, ending).filename(), from, to);
    }
  };
  for (const std::string_view ending : kEndings) stage_all(ending, link_file);
  for (const std::string_view ending : kEndingsOfTexts) stage_all(ending, stage_texts);
  for (int rank = 0; rank < execution.processes; ++rank) {
    link_rows(rank, from, to);
    link_file(collective_log_file(from, rank).filename(), from, to);
  }
  for (const std::string& name : snapshots_in(from)) link_file(name, from, to);
  stage_texts("stall.json", from, to);
}

void learn_names_in_files(const JobRecord& job, const fs::path& source, Redaction& redaction) {
  const fs::path folder = source / job.folder;
  for (int rank = 0; rank < job.processes; ++rank) learn_names_of_rank(rank, folder, redaction);
  const auto stall = read_stall(folder);
  if (!stall) return;
  for (const StalledRank& rank : stall->ranks) learn_place(rank.place, redaction);
}

void stage_redacted_files(const JobRecord& job, const fs::path& source, const fs::path& folder,
                          Redaction& redaction) {
  const fs::path from = source / job.folder;
  const fs::path to = folder / job.folder;
  make_folders(to);
  for (int rank = 0; rank < job.processes; ++rank) {
    stage_journal(rank, from, to, redaction);
    stage_answer(rank_file(from, rank, kEndEnding), rank_file(to, rank, kEndEnding), redaction);
  }
  for (const std::string& name : snapshots_in(from)) stage_snapshot(name, from, to, redaction);
  stage_stall(from, to, redaction);
}

}  // namespace lockstep
