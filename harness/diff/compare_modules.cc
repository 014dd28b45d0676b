#include "harness/diff/compare_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/compare_values.h"
#include "harness/diff/module_values.h"
#include "harness/diff/preconditions.h"

namespace lockstep {

namespace {

using Ranks = std::vector<ModuleValues>;

bool is_empty(const Ranks& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [](const auto& one) { return one.all().empty(); });
}

Compared quantity_of(Kind kind) {
  return kind == Kind::module_output ? Compared::output : Compared::output_gradient;
}

/// The keys of all ranks in the order of execution: outputs first, and stages of a pipeline in the
/// order of their ranks.
std::vector<ModuleKey> keys_of(const Ranks& ranks) {
  std::vector<ModuleKey> keys;
  std::set<ModuleKey> known;
  for (const Kind kind : {Kind::module_output, Kind::module_gradient}) {
    for (const ModuleValues& rank : ranks) {
      for (const auto& [key, value] : rank.all()) {
        if (key.kind == kind && known.insert(key).second) keys.push_back(key);
      }
    }
  }
  return keys;
}

bool is_anywhere(const ModuleKey& key, const Ranks& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const auto& one) { return one.find(key) != nullptr; });
}

/// Why two values of one name are no values of one tensor; empty: they are.
std::string mismatch_of(const WholeTensor& a, const WholeTensor& b) {
  if (!a.problem.empty() || !b.problem.empty()) return a.problem.empty() ? b.problem : a.problem;
  return a.elements == b.elements
             ? ""
             : fmt::format("{} elements in A and {} in B", a.elements, b.elements);
}

/// Adds the comparison of a rank to that of the others: the worst one counts, with its ranks.
void add_rank(const TensorDifference& of_rank, int rank, std::optional<TensorDifference>& worst) {
  if (worst && of_rank.likeness < worst->likeness) return;
  if (!worst || of_rank.likeness > worst->likeness) {
    worst = of_rank;
    worst->ranks = {rank};
    return;
  }
  std::vector<int> ranks = std::move(worst->ranks);
  if (of_rank.relative > worst->relative) worst = of_rank;
  ranks.push_back(rank);
  worst->ranks = std::move(ranks);
}

/// Of both sides with as many ranks.
class ByRank {
 public:
  ByRank(const Ranks& a, const Ranks& b, const StepRounding& rounding, ModuleDifferences& found)
      : a_(a), b_(b), rounding_(rounding), found_(found) {}

  /// In the order of B, in which a fault spreads.
  void compare() {
    for (const ModuleKey& key : keys_of(b_)) {
      if (is_anywhere(key, a_)) {
        compare(key);
      } else {
        ++found_.alone[1];
      }
    }
    for (const ModuleKey& key : keys_of(a_)) found_.alone[0] += is_anywhere(key, b_) ? 0 : 1;
  }

 private:
  void compare(const ModuleKey& key) {
    std::optional<TensorDifference> worst;
    std::string mismatch = "no rank has it on both sides";
    for (std::size_t rank = 0; rank < a_.size(); ++rank) {
      const WholeTensor* const one = a_[rank].find(key);
      const WholeTensor* const other = b_[rank].find(key);
      if (!one || !other) continue;
      if (const std::string why = mismatch_of(*one, *other); !why.empty()) {
        mismatch = fmt::format("rank {}: {}", rank, why);
        continue;
      }
      const double typical =
          std::max(a_[rank].typical_norm(key.kind), b_[rank].typical_norm(key.kind));
      const Bound bound{limit_of(rounding_of_layouts(*one, *other, rounding_).sum()), {}};
      add_rank(compare_values(*one, *other, bound, typical, {static_cast<int>(a_.size())}),
               static_cast<int>(rank), worst);
    }
    if (!worst) {
      found_.not_comparable.push_back({quantity_of(key.kind), key.name, mismatch});
      return;
    }
    if (a_.size() == 1) worst->ranks.clear();
    worst->quantity = quantity_of(key.kind);
    worst->name = key.name;
    found_.tensors.push_back(std::move(*worst));
  }

  const Ranks& a_;
  const Ranks& b_;
  const StepRounding& rounding_;
  ModuleDifferences& found_;
};

/// The outputs of one module in all forward passes of a step, on all ranks.
class Outputs {
 public:
  void add(const WholeTensor& value) {
    if (value.problem.empty()) {
      values_.push_back(&value);
    } else {
      problem_ = value.problem;
    }
  }

  /// Of all of them together. `is_distinct`: equal ones count once, as copies of tensor-parallel
  /// ranks and outputs that do not depend on the samples.
  WholeTensor together(bool is_distinct) const {
    WholeTensor sum;
    sum.problem = problem_;
    std::set<Digest> known;
    double squares = 0;
    for (const WholeTensor* value : values_) {
      if (!known.insert(*value->digest).second && is_distinct) continue;
      sum.dtype = value->dtype;
      sum.elements += value->elements;
      sum.non_finite += value->non_finite;
      squares += value->norm * value->norm;
    }
    sum.norm = std::sqrt(squares);
    return sum;
  }

 private:
  std::vector<const WholeTensor*> values_;
  std::string problem_;
};

/// By name without the pass, in the order of execution.
struct OutputsOfAll {
  std::vector<std::string> names;
  std::map<std::string, Outputs> by_name;
};

OutputsOfAll outputs_of(const Ranks& ranks) {
  OutputsOfAll outputs;
  for (const ModuleValues& rank : ranks) {
    for (const auto& [key, value] : rank.all()) {
      if (key.kind != Kind::module_output) continue;
      const std::string name = without_pass(key.name);
      const auto [place, is_new] = outputs.by_name.try_emplace(name);
      if (is_new) outputs.names.push_back(name);
      place->second.add(value);
    }
  }
  return outputs;
}

/// The norms of two tensors are at most as far apart as the tensors are.
TensorDifference difference_of_norms(const WholeTensor& a, const WholeTensor& b, double typical,
                                     double tolerance) {
  TensorDifference found;
  found.tolerance = tolerance;
  if ((a.non_finite > 0) != (b.non_finite > 0)) {
    found.likeness = Likeness::different;
    found.relative = 1;
    found.cause = fmt::format("elements are not finite in {}", a.non_finite > 0 ? "A" : "B");
    return found;
  }
  const double scale = std::max({a.norm, b.norm, kSmallPart * typical});
  found.relative = scale > 0 ? std::abs(b.norm - a.norm) / scale : 0;
  if (a.norm > 0) found.ratio = b.norm / a.norm;
  found.is_finite = a.non_finite == 0;
  found.likeness = likeness_within(found.relative, limit_of(tolerance));
  return found;
}

void compare_whole_batch(const Ranks& a, const Ranks& b, const StepRounding& rounding,
                         ModuleDifferences& found) {
  const OutputsOfAll of_a = outputs_of(a), of_b = outputs_of(b);
  double typical = 0;
  for (const ModuleValues& rank : a) {
    typical = std::max(typical, rank.typical_norm(Kind::module_output));
  }
  for (const std::string& name : of_a.names) {
    const auto other = of_b.by_name.find(name);
    if (other == of_b.by_name.end()) {
      ++found.alone[0];
      continue;
    }
    std::string mismatch;
    for (const bool is_distinct : {true, false}) {
      const WholeTensor one = of_a.by_name.at(name).together(is_distinct);
      const WholeTensor same = other->second.together(is_distinct);
      mismatch = mismatch_of(one, same);
      if (!mismatch.empty()) continue;
      TensorDifference norms =
          difference_of_norms(one, same, typical, rounding_of_layouts(one, same, rounding).sum());
      norms.quantity = Compared::output;
      norms.name = name;
      found.tensors.push_back(std::move(norms));
      break;
    }
    if (!mismatch.empty()) found.not_comparable.push_back({Compared::output, name, mismatch});
  }
  for (const std::string& name : of_b.names) found.alone[1] += of_a.by_name.contains(name) ? 0 : 1;
}

}  // namespace

ModuleDifferences compare_modules(const StepView& a, const StepView& b,
                                  const StepRounding& rounding) {
  const Ranks of_a = module_values(a), of_b = module_values(b);
  if (is_empty(of_a) || is_empty(of_b)) return {};
  const auto has_same = ranks_saw_the_same(a, b);
  if (of_a.size() == of_b.size() && has_same.value_or(true)) {
    ModuleDifferences found{.basis = ModuleBasis::by_rank, .decides = has_same.has_value()};
    ByRank(of_a, of_b, rounding, found).compare();
    if (!found.tensors.empty()) return found;
  }
  ModuleDifferences found{.basis = ModuleBasis::whole_batch};
  compare_whole_batch(of_a, of_b, rounding, found);
  return found;
}

}  // namespace lockstep
