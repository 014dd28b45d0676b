#include "harness/verdict/parts_clipped_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <variant>

#include "harness/compare/bound.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/shards.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "harness/verdict/chosen_steps.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// Steps whose rows are read: as many as have so many gradients, on all ranks.
constexpr std::size_t kMostGradients = 1 << 20;
constexpr std::size_t kFewestSteps = 8;
constexpr std::size_t kMostClipSteps = 64;

/// Of the norm to which a float32 gradient was clipped: torch adds 1e-6 to the one it divides by.
constexpr double kSameNorm = 1e-4;

/// Where one rank has nearly all of the gradients, its norm is that of the whole. Else the whole is
/// larger by so much, or by more in one step than in another.
constexpr double kLargerWhole = 1.05;
constexpr double kOtherShare = 10 * kSameNorm;

/// Gradients further apart than this, relative to their norm, are not those of one batch.
constexpr double kOtherDirection = 0.05;

/// Directions of a rank, and of all, that have the same norm by chance in no training.
constexpr std::size_t kOnOneRank = 3;
constexpr std::size_t kOnAll = 6;

/// A gradient whose elements all have the same size, such as its signs, has the same norm always.
constexpr double kAlikeElements = 0.98;

bool is_gradient(const ObservedTensor& tensor) {
  return tensor.kind == Kind::gradient && tensor.phase == Phase::pre_step;
}

/// Whether a norm says how a row was clipped: not if it is rounded to few digits.
bool is_known(const Observation& row) {
  const auto dtype = parse<DType>(row.dtype);
  return row.not_comparable.empty() && row.statistics.non_finite == 0 && dtype &&
         unit_roundoff(component_type(*dtype)) <= unit_roundoff(DType::float32);
}

/// Of floating-point numbers; 0: there is none.
double number_of(const Extreme& extreme) {
  const double* const number = std::get_if<double>(&extreme);
  return number ? *number : 0;
}

/// The norm of a row whose elements all have the size of its largest one.
double largest_norm(const Observation& row) {
  const double most = std::max(std::abs(number_of(row.statistics.minimum)),
                               std::abs(number_of(row.statistics.maximum)));
  return most * std::sqrt(static_cast<double>(element_count(row.local_shape)));
}

template <class Numbers>
double norm_of_difference(const Numbers& left, const Numbers& right) {
  double square = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    square += (left[i] - right[i]) * (left[i] - right[i]);
  }
  return std::sqrt(square);
}

}  // namespace

PartsClippedApart::PartsClippedApart(const CellEvidence& cell) {
  if (!cell.evidence) return;
  std::size_t gradients = 1;  // of a step
  for (const auto& [tensor, ranks] : cell.evidence->tensors()) {
    if (!is_gradient(tensor)) continue;
    gradients += ranks.size();
    if (is_part(tensor)) parts_.insert(tensor.name);
  }
  if (parts_.empty()) return;
  const std::size_t most = std::clamp(kMostGradients / gradients, kFewestSteps, kMostClipSteps);
  steps_ = chosen_steps(cell.evidence->steps(), most);
}

std::optional<PartsClippedApart::Own> PartsClippedApart::own_of(std::span<const Observation> rows,
                                                                Squares& squares) {
  Own own;
  double square = 0, largest = 0;
  std::size_t count = 0;
  for (const Observation& row : rows) {
    if (!is_gradient(row) || is_undefined(row)) continue;
    if (!is_known(row)) return std::nullopt;
    const double of_row = row.statistics.norm * row.statistics.norm;
    square += of_row;
    largest += largest_norm(row) * largest_norm(row);
    squares.try_emplace({row.name, row.offset}, of_row);
    const std::size_t place = 2 * (count++ % (own.extremes.size() / 2));
    own.extremes.at(place) += number_of(row.statistics.minimum);
    own.extremes.at(place + 1) += number_of(row.statistics.maximum);
  }
  own.norm = std::sqrt(square);
  own.are_alike = square >= kAlikeElements * largest;
  return own;
}

void PartsClippedApart::see(const StepView& step) {
  if (!wants(step.number())) return;
  OwnOfRanks owns;
  Squares squares;
  for (int rank = 0; rank < step.processes(); ++rank) {
    const std::optional<Own> own = own_of(step.observations(rank), squares);
    if (!own) return;
    if (!own->are_alike) owns.emplace(rank, *own);
  }
  double whole = 0;
  for (const auto& [part, square] : squares) whole += square;
  for (auto& [rank, own] : owns) own.whole = std::sqrt(whole);
  seen_.emplace(step.number(), std::move(owns));
}

/// How many of the gradients, which have the same norm, are far from the one before.
std::size_t PartsClippedApart::directions(int rank, const std::vector<std::int64_t>& steps) const {
  std::size_t count = 0;
  Extremes last{};
  for (const std::int64_t step : steps) {
    const auto& own = seen_.at(step).at(rank).extremes;
    const double size = norm_of_difference(own, Extremes{});
    if (norm_of_difference(own, last) <= kOtherDirection * size) continue;
    last = own;
    ++count;
  }
  return count;
}

/// Whether other ranks have so much of the gradients that their norm is another one.
bool PartsClippedApart::is_of_part(int rank, const std::vector<std::int64_t>& steps) const {
  double least = 0, most = 0;  // norm of the whole, by that of the rank
  for (const std::int64_t step : steps) {
    const Own& own = seen_.at(step).at(rank);
    const double larger = own.whole / own.norm;
    least = least == 0 ? larger : std::min(least, larger);
    most = std::max(most, larger);
  }
  return most >= kLargerWhole || most - least >= kOtherShare;
}

PartsClippedApart::Clipped PartsClippedApart::clipped() const {
  Clipped clipped;
  for (const auto& [step, owns] : seen_) {
    for (const auto& [rank, own] : owns) clipped.limit = std::max(clipped.limit, own.norm);
  }
  for (const auto& [step, owns] : seen_) {
    for (const auto& [rank, own] : owns) {
      if (own.norm >= (1 - kSameNorm) * clipped.limit) clipped.steps[rank].push_back(step);
    }
  }
  std::erase_if(clipped.steps, [&](const auto& one) { return !is_of_part(one.first, one.second); });
  return clipped;
}

std::optional<JobFault> PartsClippedApart::fault() const {
  const Clipped found = clipped();
  std::size_t most = 0, all = 0;
  std::vector<int> ranks;
  std::set<Extremes> parts;  // of several ranks with copies of a part one counts
  std::set<std::int64_t> clipped_steps;
  for (const auto& [rank, steps] : found.steps) {
    const std::size_t own = directions(rank, steps);
    most = std::max(most, own);
    if (parts.insert(seen_.at(steps.front()).at(rank).extremes).second) all += own;
    ranks.push_back(rank);
    clipped_steps.insert(steps.begin(), steps.end());
  }
  if (most < kOnOneRank || all < kOnAll) return std::nullopt;
  Finding finding;
  finding.claim = reduce_over_ranks();
  finding.kind = FindingKind::parts_clipped_apart;
  finding.step = *clipped_steps.begin();
  finding.last_step = *clipped_steps.rbegin();
  finding.tensors = {parts_.begin(), parts_.end()};
  finding.tensor = finding.tensors.front();
  finding.compared = static_cast<std::int64_t>(parts_.size());
  finding.places = finding.compared * static_cast<std::int64_t>(clipped_steps.size());
  finding.groups = {ranks};
  const double whole = seen_.at(finding.step).begin()->second.whole;
  finding.sentence = fmt::format(
      "each rank clipped its parts of gradients by their own norm; that is {:.4g} in each clipped "
      "step of {}, where the whole has {:.4g} in step {}.",
      found.limit, ranks_in_words(ranks), whole, finding.step);
  std::string text = fmt::format(
      "each rank clipped its parts of gradients by their own norm, {:.4g}, not by that "
      "of the whole ({} of {}, from step {})",
      found.limit, finding.compared, finding.compared, finding.step);
  return fault_of(std::move(finding), std::move(text));
}

}  // namespace lockstep
