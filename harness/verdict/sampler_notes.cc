#include "harness/verdict/sampler_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// Of one data set, as far as its ranks tell.
using Uses = std::vector<const SamplerUse*>;

/// "DistributedSampler (train.py:31)".
std::string name_in_words(const SamplerUse& use) {
  return use.name + (use.place.empty() ? "" : fmt::format(" ({})", use.place));
}

std::vector<Uses> uses_by_data_set(const JobRecord& job) {
  std::map<std::tuple<std::string_view, std::int64_t, std::int64_t>, Uses> uses;
  for (const SamplerUse& use : job.samplers) {
    uses[{use.name, use.samples, use.parts}].push_back(&use);
  }
  std::vector<Uses> all;
  for (auto& [data_set, those] : uses) all.push_back(std::move(those));
  return all;
}

void add_repeats(const Uses& uses, std::vector<std::string>& notes) {
  std::set<std::string_view> told;  // places: each rank has its own part
  for (const SamplerUse* const use : uses) {
    if (use->repeats == 0 || !told.insert(use->place).second) continue;
    notes.push_back(fmt::format(
        "the training went through the samples of {} {} times, {} in the order of the time before: "
        "its `set_epoch(epoch)` before each pass gives another order",
        name_in_words(*use), use->passes,
        use->repeats == 1 ? "once" : fmt::format("{} times", use->repeats)));
  }
}

/// A rank may read one part of several data sets that are as large.
void add_seeds(const Uses& uses, std::vector<std::string>& notes) {
  std::map<std::int64_t, std::set<std::int64_t>> seeds;  // by part
  for (const SamplerUse* const use : uses) seeds[use->part].insert(use->seed);
  const std::set<std::int64_t>& first = seeds.begin()->second;
  const auto other =
      std::ranges::find_if(seeds, [&](const auto& one) { return one.second != first; });
  if (other == seeds.end()) return;
  const auto reads = [&](std::int64_t part) {
    return *std::ranges::find(uses, part, [](const SamplerUse* use) { return use->part; });
  };
  const SamplerUse& a = *reads(seeds.begin()->first);
  const SamplerUse& b = *reads(other->first);
  notes.push_back(fmt::format(
      "{} has seed {} on {}, and seed {} on {}: their parts are those of different orders, so "
      "some samples are in several parts, and some in none",
      name_in_words(a), a.seed, ranks_in_words(a.ranks), b.seed, ranks_in_words(b.ranks)));
}

void add_unread(const Uses& uses, std::vector<std::string>& notes) {
  std::set<std::int64_t> parts;
  for (const SamplerUse* const use : uses) parts.insert(use->part);
  const std::int64_t divided = uses.front()->parts;
  const std::int64_t unread = divided - static_cast<std::int64_t>(parts.size());
  if (unread <= 0) return;
  std::int64_t first = 0;
  while (parts.contains(first)) ++first;
  const SamplerUse& one = *uses.front();
  const std::string of_these = unread == 1 ? "" : fmt::format("{} of these, as ", unread);
  notes.push_back(
      fmt::format("{} divides the samples into {}, and no rank reads {}part {}; {} {} part {}",
                  name_in_words(one), counted(divided, "part"), of_these, first,
                  ranks_in_words(one.ranks), one.ranks.size() == 1 ? "reads" : "read", one.part));
}

/// Whether each rank said which samples it read, until its end.
bool knows_all_ranks(const JobRecord& job) {
  return job.elsewhere.empty() && std::ranges::all_of(job.exits, [](const RankExit& end) {
           return end.kind == ExitKind::finished;
         });
}

}  // namespace

std::vector<std::string> sampler_notes(const JobRecord& job) {
  std::vector<std::string> notes;
  for (const Uses& uses : uses_by_data_set(job)) {
    add_repeats(uses, notes);
    add_seeds(uses, notes);
    if (knows_all_ranks(job)) add_unread(uses, notes);
  }
  return notes;
}

}  // namespace lockstep
