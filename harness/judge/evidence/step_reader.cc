#include "harness/judge/evidence/step_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/judge/evidence/for_each_rank.h"
#include "harness/record/process_identity.h"
#include "harness/record/shard_runs.h"
#include "reports/base/error.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Tolerances are relative to the norms in the journal, whose summation order is not specified.
void require_norm(const Observation& observation, const SnapshotTensor& tensor,
                  const fs::path& file) {
  constexpr double kRounding = 1e-9;
  if (name(tensor.dtype) != observation.dtype) return;  // no comparison treats these as equal
  const double found = statistics(tensor.dtype, tensor.bytes).norm;
  const double stated = observation.statistics.norm;
  if (std::abs(found - stated) <= kRounding * found) return;
  throw malformed(file.string(), 0, 0,
                  fmt::format("{} with the norm {} of the journal's row {}",
                              snapshot_key(observation), stated, observation.seq),
                  fmt::format("{}", found));
}

/// A snapshot that differs from its digest is not evidence.
void require_digest(const Observation& observation, const SnapshotTensor& tensor,
                    const fs::path& file) {
  const Digest found = observation.local_shape == tensor.shape
                           ? digest_of_part(observation, tensor.bytes, item_size(tensor.dtype))
                           : digest_run(tensor.bytes, 0);
  if (found == observation.digest) return require_norm(observation, tensor, file);
  throw malformed(
      file.string(), 0, 0,
      fmt::format("{} with the digest {} of the journal's row {}", snapshot_key(observation),
                  to_text(observation.digest), observation.seq),
      to_text(found));
}

/// Whether a summary has rows of backward passes that belong to its rank alone.
bool has_passes_of(int rank, const StepSummary& summary) {
  return own_rows_of(rank, summary)[static_cast<std::size_t>(Phase::post_backward)] != Digest();
}

/// Limit of the steps kept in memory: small cells are read repeatedly.
constexpr std::size_t kMostOfViews = 32 << 20;

/// Takes the values without a row in the step out, and returns the key of one; empty: there is
/// none.
std::string take_without_rows(StepView::Rank& rank) {
  std::set<std::string> keys;
  for (const Observation& observation : rank.observations) {
    if (observation.not_comparable.empty()) keys.insert(snapshot_key(observation));
  }
  std::string without;
  std::erase_if(rank.tensors, [&](const auto& tensor) {
    if (keys.contains(tensor.first)) return false;
    without = tensor.first;
    return true;
  });
  return without;
}

}  // namespace

StepReader::StepReader(fs::path folder, int processes, Writers writers, Reading reading)
    : folder_(std::move(folder)), writers_(std::move(writers)), reading_(std::move(reading)) {
  journals_.resize(static_cast<std::size_t>(processes));
  // Ranks write the rows of a step before its values.
  const FoundSnapshots snapshots = list_snapshots();
  for_each_rank(processes, [&](int rank) { open_journal(rank); });
  for (int rank = 0; rank < processes; ++rank) {
    note_journal(rank);
    read_collectives_of(rank);
    open_sketches_of(rank);
  }
  note_tensors();
  sort_steps();
  take_snapshots(snapshots);
}

void StepReader::note_tensors() {
  std::vector<ObservedTensors> observed(journals_.size());
  for (std::size_t rank = 0; rank < journals_.size(); ++rank) {
    if (journals_[rank]) observed[rank] = journals_[rank]->tensors();
  }
  if (writers_.have_own_models) {
    models_ = own_models(observed);
    std::string names = own_names_in_words(models_);
    if (!names.empty()) notes_.push_back(std::move(names));
  }
  std::vector<std::vector<std::uint32_t>> numbers(observed.size());
  for (std::size_t rank = 0; rank < observed.size(); ++rank) {
    numbers[rank].reserve(observed[rank].size());
    for (const KnownTensor* const written : observed[rank]) {
      const KnownTensor* const known = by_common_name(static_cast<int>(rank), *written);
      if (known) numbers[rank].push_back(known->number);
    }
  }
  tensors_ = TensorsOfRanks(known_, numbers);
}

/// A tensor of a rank under the name that the other ranks have for it; null if it is left out.
const KnownTensor* StepReader::by_common_name(int rank, const KnownTensor& known) const {
  if (models_.empty()) return &known;
  const OwnModel& model = models_[static_cast<std::size_t>(rank)];
  if (model.leaves_out(known.tensor)) return nullptr;
  if (model.own == model.common) return &known;
  ObservedTensor tensor = known.tensor;
  tensor.name = model.common_name(tensor);
  return known_->of(tensor);
}

std::vector<std::int64_t> StepReader::steps_with_passes() const {
  std::vector<std::int64_t> steps;
  for (const std::int64_t step : steps_) {
    if (together_.at(step).has_passes) steps.push_back(step);
  }
  return steps;
}

/// Rows were removed only where an index was believed. A rank that still has them, because the job
/// or the copying of its files was cut, does not bring those of the others back.
void StepReader::sort_steps() {
  for (auto& [step, together] : together_) {
    together.groups = {};
    (together.is_thinned ? thinned_steps_ : steps_).push_back(step);
    if (!together.is_thinned || together.agrees) continue;
    throw malformed(
        folder_.string(), 0, 0,
        fmt::format("indices that agree in step {}, whose rows were removed for that", step),
        "different ones");
  }
}

const fs::path& StepReader::folder_of(int rank) const {
  return writers_.folders.empty() ? folder_ : writers_.folders.at(static_cast<std::size_t>(rank));
}

/// Throws for a file of another process, if that is checked.
void StepReader::require_writer(int rank, const std::string& found, const fs::path& file) const {
  if (writers_.identities.empty()) return;
  require_process(file, writers_.identities.at(static_cast<std::size_t>(rank)), found);
}

void StepReader::open_journal(int rank) {
  const fs::path file = journal_file(folder_of(rank), rank);
  if (!has_journal(file)) return;
  JournalHeader header = read_journal_header(file);
  require_writer(rank, header.identity, file);
  journals_[static_cast<std::size_t>(rank)].emplace(file, std::move(header), reading_.index,
                                                    known_);
}

/// Called in rank order.
void StepReader::note_journal(int rank) {
  const auto& journal = journals_[static_cast<std::size_t>(rank)];
  if (!journal) return;
  std::uint64_t bytes = 0;
  for (const JournalStep& step : journal->steps()) {
    note_step(rank, step);
    together_[step.step].bytes += step.bytes;
    if (reading_.index == IndexUse::ignored) together_[step.step].agrees = false;  // claims see all
    bytes += step.bytes;
  }
  for (const IndexedStep& step : journal->thinned_steps()) {
    note_step(rank, step);
    together_[step.step].is_thinned = true;
  }
  if (reading_.meter) reading_.meter(bytes);
  if (!journal->index_fault().empty()) {
    index_faults_.push_back(fmt::format("rank {}: {}", rank, journal->index_fault()));
  }
  if (!journal->has_torn_tail()) return;
  notes_.push_back(fmt::format("rank {}: the last row of its journal was torn and left out", rank));
}

void StepReader::note_step(int rank, const IndexedStep& step) {
  Together& together = together_[step.step];
  together.has_passes = together.has_passes || has_passes_of(rank, step.summary);
  together.add(rank, step.summary);
  if (step.summary.non_finite > 0) together.non_finite.push_back(rank);
}

void StepReader::Together::add(int rank, const StepSummary& summary) {
  set.add(static_cast<std::uint64_t>(rank));
  set.add(summary.tensors);
  set.add(static_cast<std::uint64_t>(summary.non_finite));
  for (const auto& [group, phases] : summary.groups) {
    const auto [known, is_new] = groups.emplace(group, phases);
    if (!is_new && known->second != phases) agrees = false;
  }
}

std::optional<Digest> StepReader::agreed_set(std::int64_t step) const {
  const auto found = together_.find(step);
  if (found == together_.end() || !found->second.agrees) return std::nullopt;
  return found->second.set.digest();
}

std::string StepReader::non_finite_in_words() const {
  const auto step = first_non_finite_step();
  return step ? fmt::format("elements that are not finite were observed, first in step {} on {}",
                            *step, ranks_in_words(together_.at(*step).non_finite))
              : "";
}

std::optional<std::int64_t> StepReader::first_non_finite_step() const {
  for (const auto& [step, together] : together_) {
    if (!together.non_finite.empty()) return step;
  }
  return std::nullopt;
}

void StepReader::note_judged(std::int64_t step) const {
  const auto found = together_.find(step);
  if (reading_.meter && found != together_.end()) reading_.meter(found->second.bytes);
}

const JournalStep* StepReader::step_of(int rank, std::int64_t step) const {
  const auto& journal = journals_.at(static_cast<std::size_t>(rank));
  if (!journal) return nullptr;
  const auto found = std::lower_bound(
      journal->steps().begin(), journal->steps().end(), step,
      [](const JournalStep& one, std::int64_t number) { return one.step < number; });
  return found == journal->steps().end() || found->step != step ? nullptr : &*found;
}

std::shared_ptr<const StepView> StepReader::at(std::int64_t step) const {
  const auto known = std::find_if(views_.begin(), views_.end(),
                                  [&](const auto& view) { return view->number() == step; });
  if (known != views_.end()) return *known;
  // It would not stay beside the new one.
  if (!views_.empty() && views_.front()->size() > kMostOfViews) views_.clear();
  std::vector<StepView::Rank> ranks(journals_.size());
  for_each_rank(processes(), [&](int rank) {
    const JournalStep* const part = step_of(rank, step);
    if (part) read(rank, *part, ranks[static_cast<std::size_t>(rank)]);
  });
  views_.push_front(std::make_shared<const StepView>(step, std::move(ranks)));
  std::size_t size = 0;
  for (std::size_t i = 0; i < views_.size(); ++i) {
    size += views_[i]->size();
    if (size > kMostOfViews) views_.resize(std::max<std::size_t>(i, 1));
  }
  return views_.front();
}

bool StepReader::is_told_by_indices(std::int64_t step) const {
  return !must_read(step) && agreed_set(step) && together_.at(step).non_finite.empty();
}

StepView StepReader::tensors_at(std::int64_t step) const {
  std::vector<StepView::Tensors> tensors(journals_.size());
  for_each_rank(processes(), [&](int rank) {
    const JournalStep* const part = step_of(rank, step);
    if (!part) return;
    StepView::Tensors& own = tensors[static_cast<std::size_t>(rank)];
    own.first_seq = part->first_seq;
    own.rows = journals_[static_cast<std::size_t>(rank)]->read_tensors(*part);
    for (SeenTensor& one : own.rows) one.tensor = by_common_name(rank, *one.tensor);
  });
  return {step, std::move(tensors)};
}

void StepReader::check(std::int64_t step) const {
  for_each_rank(processes(), [&](int rank) {
    StepView::Rank read_and_dropped;
    const JournalStep* const part = step_of(rank, step);
    if (part) read_as_written(rank, *part, read_and_dropped);
  });
}

std::vector<Observation> StepReader::rows_of(int rank, std::int64_t step) const {
  const JournalStep* const part = step_of(rank, step);
  if (!part) return {};
  StepView::Rank view;
  view.observations = journals_[static_cast<std::size_t>(rank)]->read(*part);
  read_by_common_names(rank, view);
  return std::move(view.observations);
}

/// Gives the tensors of a rank the names that the other ranks have for them.
void StepReader::read_by_common_names(int rank, StepView::Rank& view) const {
  if (models_.empty()) return;
  const OwnModel& model = models_[static_cast<std::size_t>(rank)];
  if (!model.kept.empty()) {
    std::erase_if(view.observations, [&](const auto& one) { return model.leaves_out(one); });
  }
  if (model.own == model.common) return;
  for (Observation& one : view.observations) {
    const std::string name = model.common_name(one);
    if (one.name == name) continue;
    const auto values = view.tensors.extract(snapshot_key(one));
    one.name = name;
    if (!values.empty()) view.tensors.emplace(snapshot_key(one), std::move(values.mapped()));
  }
}

/// Reads a step of a rank into `view`.
void StepReader::read(int rank, const JournalStep& step, StepView::Rank& view) const {
  read_as_written(rank, step, view);
  read_by_common_names(rank, view);
}

void StepReader::read_as_written(int rank, const JournalStep& step, StepView::Rank& view) const {
  const auto place = static_cast<std::size_t>(rank);
  view.observations = journals_[place]->read(step);
  // Needed only to estimate differences.
  const bool needs_sketches =
      reading_.has_all_sketches || !agreed_set(step.step) || together_.at(step.step).has_passes;
  if (needs_sketches) view.sketches = sketches_[place].at(step.step, step.first_seq);
  if (!snapshots_[place].contains(step.step)) return;
  const fs::path file = snapshot_file(folder_of(rank), rank, step.step);
  Snapshot values = read_snapshot(file);
  require_writer(rank, values.identity, file);
  view.tensors = std::move(values.tensors);
  for (const Observation& observation : view.observations) {
    const auto tensor = view.tensors.find(snapshot_key(observation));
    if (!observation.not_comparable.empty() || tensor == view.tensors.end()) continue;
    require_digest(observation, tensor->second, file);
  }
  const bool is_last = step.first_seq + step.summary.rows == journals_[place]->rows();
  // A torn row can only belong to the last step, to which a rank that goes on may add rows.
  if (is_last && journals_[place]->has_torn_tail()) return;
  const std::string without_row = take_without_rows(view);
  if (without_row.empty() || (is_last && writers_.may_go_on)) return;
  throw malformed(file.string(), 0, 0, "values with a row in the journal", without_row);
}

namespace {

/// Removes `text` and the whole number after it from the front of `name`.
std::optional<std::int64_t> take_number(std::string_view text, std::string_view& name) {
  if (!name.starts_with(text)) return std::nullopt;
  name.remove_prefix(text.size());
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc()) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(stop - name.data()));
  return number;
}

/// The rank and step of a snapshot file, parsed from its name; empty for other files.
std::optional<std::pair<std::int64_t, std::int64_t>> place_of(std::string_view name) {
  const auto rank = take_number("rank-", name);
  const auto step = take_number(".step-", name);
  if (!rank || !step || name != ".safetensors") return std::nullopt;
  return std::pair{*rank, *step};
}

/// "step 3", "steps 1, 6 to 316911" for ascending steps.
std::string steps_in_words(const std::vector<std::int64_t>& steps) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
    for (end = begin + 1; end < steps.size() && steps[end] == steps[end - 1] + 1;) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", steps[begin]);
    if (end > begin + 1) text += fmt::format(" to {}", steps[end - 1]);
  }
  return fmt::format("{} {}", steps.size() == 1 ? "step" : "steps", text);
}

}  // namespace

/// The snapshots of the ranks, each in the folder of its rank.
StepReader::FoundSnapshots StepReader::list_snapshots() const {
  std::set<fs::path> folders(writers_.folders.begin(), writers_.folders.end());
  if (folders.empty()) folders.insert(folder_);
  FoundSnapshots files;
  for (const fs::path& folder : folders) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto place = place_of(entry.path().filename().string());
      if (!place || place->first < 0 || place->first >= processes()) continue;
      if (folder_of(static_cast<int>(place->first)) == folder) files.push_back(entry.path());
    }
  }
  return files;
}

namespace {

/// Whether the rows of a step were removed, because all ranks agreed in it. `--store-first` may
/// have stored values of it.
bool has_thinned(const JournalReader& journal, std::int64_t step) {
  return std::ranges::binary_search(journal.thinned_steps(), step, {}, &IndexedStep::step);
}

}  // namespace

/// Rejects snapshots of a step that the journal lacks, or in which no tensor is comparable.
void StepReader::take_snapshots(const FoundSnapshots& files) {
  snapshots_.resize(journals_.size());
  for (const fs::path& file : files) {
    const auto [number, written] = *place_of(file.filename().string());
    const int rank = static_cast<int>(number);
    const auto& journal = journals_[static_cast<std::size_t>(rank)];
    const JournalStep* const step = step_of(rank, written);
    const bool may_be_torn = journal && journal->has_torn_tail();
    if (may_be_torn || (step && step->summary.has_values)) {
      snapshots_[static_cast<std::size_t>(rank)].insert(written);
      snapshot_steps_.insert(written);
    } else if (!writers_.may_go_on && !(journal && has_thinned(*journal, written))) {
      throw malformed(file.string(), 0, 0, "values with a row in the journal",
                      "a step without rows");
    }
  }
}

void StepReader::read_collectives_of(int rank) {
  const fs::path file = collective_log_file(folder_of(rank), rank);
  auto& calls = collectives_.emplace_back();
  if (const auto known = writers_.calls.find(rank); known != writers_.calls.end()) {
    calls = known->second;
    return;
  }
  if (!has_collective_log(file)) return;
  RankCollectives log = read_log_of_rank(file);
  if (log.rank != rank) {
    throw malformed(file.string(), 0, 0, fmt::format("a log of rank {}", rank),
                    fmt::format("rank {}", log.rank));
  }
  require_writer(rank, log.identity, file);
  calls = std::move(log.calls);
}

void StepReader::open_sketches_of(int rank) {
  const auto& journal = journals_[static_cast<std::size_t>(rank)];
  const fs::path file = sketch_file(folder_of(rank), rank);
  const auto& sketches = sketches_.emplace_back(file, journal ? journal->segments() : 1);
  if (!sketches.empty()) require_writer(rank, sketches.identity(), file);
}

bool StepReader::misses_rows(int rank) const {
  const auto& journal = journals_.at(static_cast<std::size_t>(rank));
  return journal && journal->misses_rows();
}

std::int64_t StepReader::rows(int rank) const {
  const auto& journal = journals_.at(static_cast<std::size_t>(rank));
  return journal ? journal->rows() : 0;
}

std::int64_t StepReader::last_step(int rank) const {
  const auto& journal = journals_[static_cast<std::size_t>(rank)];
  return journal && !journal->steps().empty() ? journal->steps().back().step : 0;
}

std::int64_t StepReader::rows_written(int rank) const {
  const auto& journal = journals_.at(static_cast<std::size_t>(rank));
  return rows(rank) + (journal && journal->has_torn_tail() ? 1 : 0);
}

const std::vector<Collective>* StepReader::collectives(int rank) const {
  const auto& log = collectives_.at(static_cast<std::size_t>(rank));
  return log ? &*log : nullptr;
}

std::string StepReader::missing_snapshots(int rank, bool was_ended) const {
  const auto place = static_cast<std::size_t>(rank);
  if (!journals_.at(place)) return "";
  std::vector<std::int64_t> missing;
  for (const JournalStep& step : journals_[place]->steps()) {
    // A rank ended within a step may not have written its snapshots.
    const bool is_cut = was_ended && &step == &journals_[place]->steps().back();
    if (!step.summary.has_values || is_cut || snapshots_[place].contains(step.step)) continue;
    missing.push_back(step.step);
  }
  if (missing.empty()) return "";
  return fmt::format("rank {}: snapshots of {} are missing", rank, steps_in_words(missing));
}

}  // namespace lockstep
