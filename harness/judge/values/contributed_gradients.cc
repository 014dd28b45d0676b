#include "harness/judge/values/contributed_gradients.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "harness/compare/bound.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/held_tensors.h"
#include "harness/judge/values/whole_copies.h"
#include "harness/record/shard_runs.h"

namespace lockstep {

namespace {

Sketch times(Sketch sketch, double factor) {
  for (double& lane : sketch.lanes) lane *= factor;
  return sketch;
}

bool is_known(const Observation& row) {
  return row.not_comparable.empty() && row.statistics.non_finite == 0;
}

/// What each rank contributed to tensors whose contributions of a step add up, by name.
std::map<std::string, std::map<int, std::vector<const Observation*>>> summands_in(
    const StepView& step) {
  std::map<std::string, std::map<int, std::vector<const Observation*>>> summands;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& row : step.observations(rank)) {
      if (row.kind == Kind::contribution && row.is_summand) {
        summands[row.name][rank].push_back(&row);
      }
    }
  }
  return summands;
}

/// Adds the sketches of rows of a tensor that is like `model`. Returns whether all are known.
template <class Rows>
bool take_sketches(const StepView& step, const Rows& rows, const Observation& model,
                   std::map<int, Sketch>& sketches) {
  for (const auto& [rank, row] : rows) {
    const Sketch* const sketch = step.sketch(rank, *row);
    const bool is_alike = row->dtype == model.dtype && row->local_shape == model.local_shape;
    if (!sketch || !is_alike || !is_known(*row)) return false;
    sketches.emplace(rank, *sketch);
  }
  return true;
}

RowsOfRanks of_holders(const RowsOfRanks& rows, const HeldTensor& held) {
  RowsOfRanks own;
  for (const auto& [rank, row] : rows) {
    if (held.holders.contains(rank)) own.emplace(rank, row);
  }
  return own;
}

/// The ranks that contributed to any gradient of the step.
std::set<int> contributors_to(const std::map<std::string, RowsOfRanks>& contributions) {
  std::set<int> ranks;
  for (const auto& [name, rows] : contributions) {
    for (const auto& [rank, row] : rows) ranks.insert(rank);
  }
  return ranks;
}

/// The bits at the end of backward passes of a tensor, by pass and rank.
using EndsOfPasses = std::map<std::int64_t, std::map<int, Digest>>;

/// By name of the tensor.
std::map<std::string, EndsOfPasses> ends_in(const StepView& step) {
  std::map<std::string, EndsOfPasses> ends;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& row : step.observations(rank)) {
      if (row.kind == Kind::reduction) ends[row.name][row.micro_batch][rank] = row.digest;
    }
  }
  return ends;
}

/// What was observed of the backward passes of a step.
struct Passes {
  std::map<std::string, RowsOfRanks> contributions;
  std::map<std::string, RowsOfRanks> ended;
  std::map<std::string, EndsOfPasses> ends;
  std::map<std::string, std::map<int, std::vector<const Observation*>>> summands;
  std::set<int> contributors;

  explicit Passes(const StepView& step)
      : contributions(last_rows_of(step, Kind::contribution, Phase::post_backward)),
        ended(last_rows_of(step, Kind::reduction, Phase::post_backward)),
        ends(ends_in(step)),
        summands(summands_in(step)),
        contributors(contributors_to(contributions)) {}
};

/// Adds ends of backward passes, if they are those of the last contributions, or there was none on
/// a rank.
void take_ended(const StepView& step, const RowsOfRanks& ended, const RowsOfRanks& contributions,
                const Observation& model, ContributedGradient& gradient) {
  for (const auto& [rank, row] : ended) {
    const auto own = contributions.find(rank);
    if (own != contributions.end() && own->second->micro_batch != row->micro_batch) return;
  }
  std::map<int, Sketch> sketches;
  if (!take_sketches(step, ended, model, sketches)) return;
  gradient.ended = std::move(sketches);
  for (const auto& [rank, row] : ended) gradient.ended_bits.emplace(rank, row->digest);
}

/// As `ContributedGradient::early_pass`. `last`: the number of the last pass.
std::int64_t early_pass_of(const EndsOfPasses& passes, const HeldTensor& held, std::int64_t last) {
  std::int64_t early = 0;
  for (const auto& [pass, ends] : passes) {
    const std::map<int, Digest>& bits = ends;
    const auto first = bits.find(held.holders.front().first);
    const bool is_common = std::ranges::all_of(held.holders, [&](const auto& holder) {
      const auto end = bits.find(holder.first);
      return end != bits.end() && end->second == first->second;
    });
    if (pass < last && is_common) early = pass + 1;
  }
  return early;
}

/// Without values. `shape`: of the whole. Empty: its type is not rounded.
std::optional<ContributedGradient> begun_as(const Observation& model, const Shape& shape) {
  const auto dtype = parse<DType>(model.dtype);
  if (!dtype || unit_roundoff(component_type(*dtype)) == 0) return std::nullopt;
  ContributedGradient gradient;
  gradient.name = model.name;
  gradient.dtype = *dtype;
  gradient.components = element_count(shape) * static_cast<std::int64_t>(components(*dtype));
  return gradient;
}

/// A rank that contributed to other gradients alone added nothing to this one. Empty: something is
/// unknown.
std::optional<ContributedGradient> gradient_of(const StepView& step, const HeldTensor& held,
                                               const Passes& passes) {
  const Observation& model = *held.holders.front().second;
  const auto known = passes.contributions.find(model.name);
  if (known == passes.contributions.end() || held.holders.size() < 2) return std::nullopt;
  const RowsOfRanks own = of_holders(known->second, held);
  if (own.empty()) return std::nullopt;
  // Its type is that of the sum: an optimizer may have a copy of the parameter in a finer one.
  const Observation& first = *own.begin()->second;
  auto begun = begun_as(first, model.local_shape);
  if (!begun || first.local_shape != model.local_shape) return std::nullopt;
  ContributedGradient& gradient = *begun;
  if (!take_sketches(step, held.holders, model, gradient.values)) return std::nullopt;
  if (!take_sketches(step, own, first, gradient.contributions)) return std::nullopt;
  for (const auto& [rank, value] : held.holders) {
    if (!passes.contributors.contains(rank)) return std::nullopt;
    gradient.contributions.try_emplace(rank);
  }
  gradient.groups = groups_of(held);
  gradient.mean = gradient.mean_of(gradient.all_ranks());
  for (const auto& [rank, row] : own) gradient.size += row->statistics.norm / gradient.ranks();
  if (const auto ended = passes.ended.find(model.name); ended != passes.ended.end()) {
    take_ended(step, of_holders(ended->second, held), own, first, gradient);
    gradient.early_pass =
        early_pass_of(passes.ends.at(model.name), held, own.begin()->second->micro_batch);
  }
  return begun;
}

/// Gives each rank the whole tensor that it holds a part of. None, if that of one is not known.
void take_copies(const std::vector<WholeCopy>& copies, std::map<int, Sketch>& values,
                 std::map<int, Digest>& bits) {
  const auto is_known = [](const WholeCopy& copy) { return copy.sketch.has_value(); };
  if (!std::ranges::all_of(copies, is_known)) return;
  for (const WholeCopy& copy : copies) {
    for (const int rank : copy.ranks) {
      values.emplace(rank, *copy.sketch);
      bits.emplace(rank, copy.digest);
    }
  }
}

/// Adds up the summands of all ranks. Returns whether all are known.
bool take_summands(const StepView& step,
                   const std::map<int, std::vector<const Observation*>>& summands,
                   ContributedGradient& gradient) {
  const Observation& model = *summands.begin()->second.front();
  std::map<std::int64_t, Sketch> in_order;
  for (const auto& [rank, rows] : summands) {
    Sketch& sum = gradient.contributions[rank];
    for (const Observation* const row : rows) {
      const Sketch* const sketch = step.sketch(rank, *row);
      if (!sketch || !is_known(*row) || row->local_shape != model.local_shape) return false;
      sum += *sketch;
      in_order[row->micro_batch] += *sketch;
      gradient.size += row->statistics.norm;
    }
    gradient.summands = std::max(gradient.summands, static_cast<double>(rows.size()));
  }
  Sketch sum;
  for (const auto& [number, sketch] : in_order) {
    sum += sketch;
    gradient.early_means.push_back(times(sum, 1 / gradient.ranks()));
  }
  gradient.early_means.pop_back();
  gradient.size /= gradient.ranks();
  return true;
}

/// A gradient that ranks divide. `parts`: of all of them. Empty: something is unknown.
std::optional<ContributedGradient> divided_gradient_of(const StepView& step,
                                                       const RowsOfRanks& parts,
                                                       const Passes& passes) {
  const Observation& model = *parts.begin()->second;
  const auto& summands = passes.summands.at(model.name);
  const Observation& whole = *summands.begin()->second.front();
  auto begun = begun_as(model, whole.local_shape);
  if (!begun) return std::nullopt;
  ContributedGradient& gradient = *begun;
  for (const auto& [rank, part] : parts) {
    if (!passes.contributors.contains(rank) || part->dtype != model.dtype) return std::nullopt;
    gradient.contributions.try_emplace(rank);
  }
  if (!take_summands(step, summands, gradient)) return std::nullopt;
  std::map<int, Digest> bits;
  take_copies(whole_copies(step, parts, whole), gradient.values, bits);
  if (gradient.values.size() < 2 || gradient.values.size() != gradient.contributions.size()) {
    return std::nullopt;
  }
  gradient.groups = groups_of(bits);
  gradient.mean = gradient.mean_of(gradient.all_ranks());
  if (const auto ended = passes.ended.find(model.name); ended != passes.ended.end()) {
    take_copies(whole_copies(step, ended->second, whole), gradient.ended, gradient.ended_bits);
  }
  return begun;
}

/// Whether ranks contributed to a gradient that none of them has, nor had when a pass had ended.
bool arrived_nowhere(const RowsOfRanks& parts, const Passes& passes) {
  const std::string& name = parts.begin()->second->name;
  const auto& summands = passes.summands.at(name);
  return !passes.ended.contains(name) && summands.size() == parts.size() &&
         std::ranges::all_of(parts, [](const auto& part) { return is_undefined(*part.second); }) &&
         std::ranges::all_of(summands, [](const auto& own) {
           return is_known(*own.second.back()) && own.second.back()->statistics.norm > 0;
         });
}

}  // namespace

Sketch ContributedGradient::mean_of(const std::vector<int>& some) const {
  Sketch sum;
  for (const int rank : some) sum += contributions.at(rank);
  return times(sum, 1 / static_cast<double>(some.size()));
}

Sketch ContributedGradient::mean_without(int rank) const {
  Sketch sum = times(mean, ranks());
  sum -= contributions.at(rank);
  return times(sum, 1 / (ranks() - 1));
}

std::vector<int> ContributedGradient::all_ranks() const {
  std::vector<int> all;
  for (const auto& [rank, sketch] : contributions) all.push_back(rank);
  return all;
}

std::vector<int> ContributedGradient::ranks_without(int rank) const {
  std::vector<int> others = all_ranks();
  std::erase(others, rank);
  return others;
}

RanksByGradient see_contributed_gradients(
    const StepView& step, const std::set<std::string>& unshared,
    const std::function<void(const ContributedGradient&)>& see) {
  RanksByGradient nowhere;
  const Passes passes(step);
  if (passes.contributions.empty()) return nowhere;
  const Claim agree = agree_across_ranks(Kind::gradient, Phase::pre_step);
  std::map<std::string, RowsOfRanks> divided;
  for (const HeldTensor& held : held_tensors(step, agree, unshared)) {
    const std::string& name = held.tensor->name;
    if (passes.summands.contains(name)) {
      divided[name].insert(held.holders.begin(), held.holders.end());
    } else if (const auto gradient = gradient_of(step, held, passes)) {
      see(*gradient);
    }
  }
  for (const auto& [name, parts] : divided) {
    if (parts.size() > 1 && arrived_nowhere(parts, passes)) {
      for (const auto& [rank, part] : parts) nowhere[name].push_back(rank);
    } else if (const auto gradient = divided_gradient_of(step, parts, passes)) {
      see(*gradient);
    }
  }
  return nowhere;
}

}  // namespace lockstep
