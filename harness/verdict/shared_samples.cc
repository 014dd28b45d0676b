#include "harness/verdict/shared_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostStepsRead = 8;
constexpr std::size_t kFewestBatches = 4;

/// What a rank saw in a step: by input, the samples of all micro-batches.
using Batch = std::map<std::string, Digest>;

/// By parameter and backward pass, the norms of the gradients that a rank contributed.
using Contributions = std::map<std::pair<std::string, std::int64_t>, double>;

Contributions contributions_of(const StepView& step, int rank) {
  Contributions own;
  for (const Observation& row : step.observations(rank)) {
    if (row.kind != Kind::contribution || !row.not_comparable.empty()) continue;
    own[{row.name, row.micro_batch}] = row.statistics.norm;
  }
  return own;
}

/// Whether two ranks that ran the same code on the same samples would have these: all are known on
/// both, or none.
bool are_alike(const Contributions& one, const Contributions& other) {
  constexpr double kRounding = 1e-3;
  return std::ranges::equal(one, other, [](const auto& a, const auto& b) {
    return a.first == b.first && std::abs(a.second - b.second) <= kRounding * a.second;
  });
}

/// What the ranks saw in the first observed steps.
class Seen {
 public:
  explicit Seen(const StepReader& evidence)
      : ranks_(static_cast<std::size_t>(evidence.processes())) {
    for (const std::int64_t number : evidence.steps()) {
      if (steps_.size() == kMostStepsRead) break;
      add(*evidence.at(number));
    }
  }

  const std::vector<std::int64_t>& steps() const { return steps_; }

  /// The ranks that saw the same; of one rank: what no other did.
  std::vector<std::vector<int>> groups() const {
    std::map<std::vector<Batch>, std::vector<int>> alike;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const bool is_known =
          std::ranges::any_of(ranks_[rank], [](const Batch& batch) { return !batch.empty(); });
      if (is_known) alike[ranks_[rank]].push_back(static_cast<int>(rank));
    }
    std::vector<std::vector<int>> groups;
    for (auto& [batches, ranks] : alike) groups.push_back(std::move(ranks));
    std::ranges::sort(groups);
    return groups;
  }

  /// Whether ranks computed other gradients from what they saw: each may have its part of it.
  bool differ_in_contributions() const { return differ_in_contributions_; }

  /// Whether rank 0 saw several batches, and more samples than there are ranks.
  bool moves_on() const {
    const std::set<Batch> batches(ranks_[0].begin(), ranks_[0].end());
    return batches.size() >= kFewestBatches && !batches.contains(Batch()) &&
           samples_ > static_cast<std::int64_t>(ranks_.size());
  }

 private:
  void add(const StepView& step) {
    steps_.push_back(step.number());
    const Contributions of_first = contributions_of(step, 0);
    for (int rank = 0; rank < step.processes(); ++rank) {
      const std::int64_t samples = add_batch(step, rank);
      if (rank == 0) {
        samples_ += samples;
      } else if (!are_alike(of_first, contributions_of(step, rank))) {
        differ_in_contributions_ = true;
      }
    }
  }

  /// Returns the number of its samples.
  std::int64_t add_batch(const StepView& step, int rank) {
    Batch& batch = ranks_[static_cast<std::size_t>(rank)].emplace_back();
    std::int64_t largest = 0;
    for (const Observation& row : step.observations(rank)) {
      if (row.kind != Kind::data || !row.not_comparable.empty()) continue;
      batch[row.name] += row.digest;
      if (!row.local_shape.empty()) largest = std::max(largest, row.local_shape[0]);
    }
    return largest;
  }

  std::vector<std::int64_t> steps_;
  std::vector<std::vector<Batch>> ranks_;  ///< by rank and step
  std::int64_t samples_ = 0;               ///< that rank 0 saw
  bool differ_in_contributions_ = false;
};

bool has_data(const StepReader& evidence) {
  return std::ranges::any_of(
      evidence.tensors(), [](const auto& observed) { return observed.tensor.kind == Kind::data; });
}

/// Whether ranks divide the samples, and neither the model nor a batch.
bool divides_samples(const JobRecord& job, const StepReader& evidence, const Coverage& coverage) {
  switch (division_of_model(job, evidence, coverage)) {
    case Division::copies:
      return job.calls_in_forward == 0;
    case Division::parts_by_data:
      return true;
    case Division::other:
      break;
  }
  return false;
}

/// Whether ranks called collectives over all of them, in every step but the first.
bool communicates(const JobRecord& job) {
  bool is_known = false;
  for (const Traffic& one : job.traffic) {
    if (one.group_size != training_ranks(job) || one.last_step < 2) continue;
    if (one.collectives == 0) return false;
    is_known = true;
  }
  return is_known || job.traffic.empty();
}

/// "all 2 ranks saw the same samples in each of 8 steps, 1 to 8".
std::string shared_in_words(const JobRecord& job, const Seen& seen) {
  return fmt::format("all {} ranks saw the same samples in each of {} steps, {} to {}",
                     training_ranks(job), seen.steps().size(), seen.steps().front(),
                     seen.steps().back());
}

Symptom symptom_of(const JobRecord& job, const Seen& seen) {
  Symptom symptom;
  symptom.kind = SymptomKind::same_samples;
  symptom.step = seen.steps().front();
  symptom.text = shared_in_words(job, seen);
  return symptom;
}

Finding finding_of(const JobRecord& job, const Seen& seen, const std::vector<int>& ranks) {
  Finding finding;
  finding.claim = divide_samples();
  finding.kind = FindingKind::same_samples;
  finding.step = seen.steps().front();
  finding.last_step = seen.steps().back();
  finding.places = static_cast<std::int64_t>(seen.steps().size());
  finding.groups = {ranks};
  finding.sentence = shared_in_words(job, seen) +
                     ". Batches differ between steps, and nothing says that ranks share them: the "
                     "data is not divided.";
  return finding;
}

}  // namespace

SharedSamples shared_samples(const JobRecord& job, const StepReader& evidence,
                             const Coverage& coverage) {
  SharedSamples shared;
  if (!has_data(evidence)) return shared;
  const Seen seen(evidence);
  shared.groups = seen.groups();
  for (const std::vector<int>& ranks : shared.groups) {
    if (ranks.size() < 2) continue;
    shared.text += fmt::format("{}{} saw the same samples", shared.text.empty() ? "" : "; ",
                               ranks_in_words(ranks));
  }
  if (shared.text.empty()) return shared;
  const std::vector<int>& first = shared.groups.front();
  const std::size_t steps = seen.steps().size();
  shared.text += steps == 1 ? fmt::format(" in step {}", seen.steps().front())
                            : fmt::format(" in each of the first {} steps", steps);
  const bool are_all =
      static_cast<int>(first.size()) == training_ranks(job) && job.elsewhere.empty();
  if (!are_all) return shared;
  if (seen.differ_in_contributions()) {
    shared.text += ", and computed other gradients from them";
  } else if (seen.moves_on() && divides_samples(job, evidence, coverage) && communicates(job)) {
    shared.fault = finding_of(job, seen, first);
    shared.symptom = symptom_of(job, seen);
  }
  return shared;
}

const std::vector<int>* group_of(const SharedSamples& samples, int rank) {
  for (const std::vector<int>& ranks : samples.groups) {
    if (std::ranges::find(ranks, rank) != ranks.end()) return &ranks;
  }
  return nullptr;
}

std::string samples_of_parts_in_words(const SharedSamples& samples, const PartsOfRanks& parts) {
  using Parts = std::set<std::set<std::string>>;
  Parts all;
  std::vector<std::pair<Parts, std::vector<int>>> held;  // by the ranks that saw the same
  for (const std::vector<int>& ranks : samples.groups) {
    auto& [own, holders] = held.emplace_back();
    for (const int rank : ranks) {
      const auto part = parts.find(rank);
      if (part == parts.end()) continue;
      own.insert(part->second);
      holders.push_back(rank);
    }
    all.insert(own.begin(), own.end());
  }
  std::vector<int> alone;
  for (const auto& [own, holders] : held) {
    if (own.size() < all.size()) alone.insert(alone.end(), holders.begin(), holders.end());
  }
  std::ranges::sort(alone);
  if (alone.empty()) return "";
  return fmt::format(
      "{} saw other samples than ranks with other parts of the model: right only if each has its "
      "part of the same ones, as with sequence parallelism",
      ranks_in_words(alone));
}

}  // namespace lockstep
