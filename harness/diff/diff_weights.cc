#include "harness/diff/diff_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/compare_elements.h"
#include "harness/checkpoint/model_names.h"
#include "harness/compare/compare_values.h"
#include "harness/compare/noise.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "reports/base/nearest_name.h"
#include "reports/base/usage_error.h"
#include "reports/comparison/conclude.h"

namespace lockstep {

namespace {

constexpr const char* kDrift =
    "trainings drift apart as far: --expect same says that both should hold the same values, and "
    "--noise RUN measures how far apart repetitions are";

WholeTensorKey key_of_weight(std::string name) {
  return {Phase::post_step, Kind::parameter, std::move(name)};
}

std::set<std::string> names_in(const WholeTensors& tensors) {
  std::set<std::string> names;
  for (const auto& [key, tensor] : tensors.all()) names.insert(key.name);
  return names;
}

/// Gives the tensors of a checkpoint the names of their model, which is that of `others` if names
/// match. A name that another tensor has already is not given. Those of a job are right.
void name_as_model(const std::set<std::string>& others, Weights& weights) {
  if (weights.step != 0) return;
  const std::string prefix = model_prefixes(others, names_in(weights.tensors))[1];
  std::set<std::string> taken;
  std::vector<std::pair<WholeTensorKey, WholeTensor>> named = weights.tensors.all();
  for (auto& [key, tensor] : named) {
    std::string name = model_name(key.name, prefix);
    if (taken.insert(name).second) key.name = std::move(name);
  }
  weights.tensors = WholeTensors(std::move(named));
}

struct Rounding {
  double unit_roundoff = 0;
  double smallest_subnormal = 0;
};

Rounding rounding_of(const WholeTensor& tensor) {
  const auto dtype = parse<DType>(tensor.dtype);
  if (!dtype) return {};
  const DType component = component_type(*dtype);
  return {unit_roundoff(component), smallest_subnormal(component)};
}

/// Why tensors differ, whatever their distance is, if they are no multiple; empty: they may not.
std::string sure_difference(const WholeTensor& a, const WholeTensor& b,
                            const TensorDifference& found) {
  if (a.non_finite != b.non_finite) {
    return fmt::format("elements that are not finite: {} in A, {} in B", a.non_finite,
                       b.non_finite);
  }
  const bool is_structural = found.likeness == Likeness::different && !found.ratio &&
                             !found.cause.empty() && a.sketch && b.sketch;
  return is_structural ? found.cause : "";
}

/// Compares the elements of two checkpoints; absent: one is a job, or the forms are not the same.
std::optional<ElementDifferences> elements_of(const WholeTensor& a, const WholeTensor& b) {
  if (!a.stored || !b.stored || a.stored->shape != b.stored->shape) return std::nullopt;
  if (components(a.stored->dtype) != components(b.stored->dtype)) return std::nullopt;
  return compare_elements(*a.stored, *b.stored);
}

double over_larger_norm(double apart, const WholeTensor& a, const WholeTensor& b) {
  const double larger = std::max(a.norm, b.norm);
  return larger > 0 ? apart / larger : 0;
}

/// Replaces the estimates by what the elements say.
void take_elements(const WholeTensor& a, const WholeTensor& b, ElementDifferences elements,
                   TensorDifference& found) {
  found.estimate_error.reset();
  found.relative = over_larger_norm(elements.apart, a, b);
  const double squares = a.norm * a.norm, others = b.norm * b.norm;
  const double both = (squares + others - elements.apart * elements.apart) / 2;
  if (squares > 0) found.ratio = both / squares;
  if (squares > 0 && others > 0) {
    found.cosine = std::clamp(both / (a.norm * b.norm), -1.0, 1.0);
  }
  if (!found.kind) found.cause.clear();
  found.elements = std::move(elements);
}

/// By the elements, without repetitions. `may_be_drift`: what is no rounding may be one of
/// training.
Likeness likeness_of(const ElementDifferences& elements, bool has_same_type, bool may_be_drift) {
  if (!has_same_type && elements.is_rounded) return Likeness::rounding;
  if (!may_be_drift) return Likeness::different;
  return has_same_type && elements.ulps <= 1 ? Likeness::rounding : Likeness::undecided;
}

/// A tensor of both sides. `repetitions`: how far apart they are; absent: unknown.
TensorDifference compare_weight(const WholeTensor& a, const WholeTensor& b,
                                const std::optional<double>& repetitions, bool may_be_drift) {
  const Limit limit = limit_of(std::max(copy_bound(a, b), kOfNoise * repetitions.value_or(0)));
  TensorDifference found = compare_values(a, b, {limit, {}}, 0, {});
  found.quantity = Compared::weight;
  if (!a.problem.empty() || !b.problem.empty() || found.likeness == Likeness::equal) return found;
  auto elements = elements_of(a, b);
  if (elements) take_elements(a, b, std::move(*elements), found);
  const std::string sure = sure_difference(a, b, found);
  const bool is_count = a.elements == 1 || roundoff_of(a.dtype) == 0;  // twice as large is no fault
  if (is_count || a.non_finite != b.non_finite) found.multiple.reset();
  if (found.multiple) found.multiple->causes.clear();  // which are those of gradients
  if (found.multiple || !sure.empty()) {
    found.likeness = Likeness::different;
    found.cause = sure;
  } else if (found.elements) {
    found.likeness = repetitions ? likeness_within(found.relative, limit)
                                 : likeness_of(*found.elements, a.dtype == b.dtype, may_be_drift);
  } else if (may_be_drift && found.likeness == Likeness::different) {
    found.likeness = Likeness::undecided;
  }
  return found;
}

/// Of two tensors that may have any form; exact if both are of checkpoints.
double relative_distance(const WholeTensor& a, const WholeTensor& b) {
  const TensorDifference found = compare_values(a, b, {}, 0, {});
  if (found.likeness == Likeness::equal) return 0;
  const auto elements = elements_of(a, b);
  return elements ? over_larger_norm(elements->apart, a, b) : found.relative;
}

/// How far apart repetitions are, relative to the norm. Those with the same bits say nothing of
/// others that round in other places.
class RepetitionDistances {
 public:
  RepetitionDistances(const std::vector<Weights>& noise, const Weights& a, const Weights& b) {
    for (const Weights& run : noise) add(run, a, b);
  }

  /// Of a tensor, at least that of all together: the values of a small one may be the same by
  /// chance. Absent: unknown.
  std::optional<double> of(const std::string& name) const {
    const auto own = distances_.find(name);
    if (own == distances_.end() || together_ == 0) return std::nullopt;
    return std::max(own->second, together_);
  }

 private:
  /// To the nearer of both sides.
  void add(const Weights& run, const Weights& a, const Weights& b) {
    double apart = 0, all = 0;
    for (const auto& [key, tensor] : run.tensors.all()) {
      const WholeTensor* const of_a = a.tensors.find(key);
      const WholeTensor* const of_b = b.tensors.find(key);
      if (!of_a || !of_b) continue;
      const double nearer =
          std::min(relative_distance(*of_a, tensor), relative_distance(*of_b, tensor));
      double& known = distances_[key.name];
      known = std::max(known, nearer);
      apart += nearer * nearer * tensor.norm * tensor.norm;
      all += tensor.norm * tensor.norm;
    }
    if (all > 0) together_ = std::max(together_, std::sqrt(apart / all));
  }

  std::map<std::string, double> distances_;
  double together_ = 0;
};

/// A tensor of a checkpoint, read once.
WholeTensor measured(std::shared_ptr<const CheckpointTensor> stored) {
  const MeasuredTensor sums = measure_tensor(*stored);
  WholeTensor whole;
  whole.dtype = name(stored->dtype);
  whole.elements = element_count(stored->shape);
  whole.shape = stored->shape;
  whole.digest = sums.digest;
  whole.norm = sums.norm;
  whole.non_finite = sums.non_finite;
  whole.sketch = sums.sketch;
  whole.stored = std::move(stored);
  return whole;
}

/// Reads those that were put together from several of a checkpoint.
void measure_fused(Weights& weights) {
  std::vector<std::pair<WholeTensorKey, WholeTensor>> all = weights.tensors.all();
  for (auto& [key, tensor] : all) {
    if (tensor.stored && !tensor.digest) tensor = measured(tensor.stored);
  }
  weights.tensors = WholeTensors(std::move(all));
}

/// Tensors of one side that the other one lacks, and the reasons.
class MissingTensors {
 public:
  MissingTensors(const Weights& a, const Weights& b) : sides_{&a, &b} {}

  /// Takes those that are tied to another tensor from the names without a partner. Only matrices
  /// and larger tensors that are not 0 are: small ones may have the same values by chance.
  void find_tied(ComparedPair& diff) const {
    for (const std::size_t side : {0U, 1U}) {
      if (diff.unmatched[side].empty() || sides_[side]->step != 0) continue;
      const auto matched = names_by_bits(side);
      std::erase_if(diff.unmatched[side], [&](const std::string& name) {
        const auto same = matched.find(bits_of(*tensor(side, name)));
        const bool is_tied = may_be_tied(*tensor(side, name)) && same != matched.end();
        if (is_tied) diff.tied.push_back({side, name, same->second});
        return is_tied;
      });
    }
  }

  /// Adds the others as differences. A job has no buffers, so it may lack what a checkpoint has.
  void add(const ComparedPair& diff, std::vector<TensorDifference>& found) const {
    for (const std::size_t side : {0U, 1U}) {
      const bool may_lack = sides_[1 - side]->step != 0;
      if (may_lack) continue;
      std::size_t number = 0;
      for (const std::string& name : diff.unmatched[side]) {
        TensorDifference one;
        one.quantity = Compared::weight;
        one.name = name;
        one.likeness = Likeness::different;
        one.relative = 1;
        one.kind = FindingKind::other_shape;
        one.cause = fmt::format("there is none in {}", side == 0 ? "B" : "A");
        if (number++ < kNearest) one.cause += nearest_in_words(name, side, diff);
        found.push_back(std::move(one));
      }
    }
  }

 private:
  static constexpr std::size_t kNearest = 8;  // names are slow to compare

  const WholeTensor* tensor(std::size_t side, const std::string& name) const {
    return sides_[side]->tensors.find(key_of_weight(name));
  }

  static std::string bits_of(const WholeTensor& tensor) {
    return fmt::format("{} {} {}", tensor.dtype, tensor.elements,
                       tensor.digest ? to_text(*tensor.digest) : "");
  }

  static bool may_be_tied(const WholeTensor& tensor) {
    return tensor.digest && tensor.norm > 0 && tensor.shape && tensor.shape->size() >= 2;
  }

  /// Of the tensors that both sides have.
  std::map<std::string, std::string> names_by_bits(std::size_t side) const {
    std::map<std::string, std::string> names;
    for (const auto& [key, tensor] : sides_[side]->tensors.all()) {
      if (sides_[1 - side]->tensors.find(key)) names.emplace(bits_of(tensor), key.name);
    }
    return names;
  }

  /// "; nearest: b0.attn.q.weight": of those that lack a partner, too, else of all.
  std::string nearest_in_words(const std::string& name, std::size_t side,
                               const ComparedPair& diff) const {
    const std::vector<std::string>& alone = diff.unmatched[1 - side];
    const std::set<std::string> all = names_in(sides_[1 - side]->tensors);
    std::string nearest = nearest_name(name, alone);
    if (nearest.empty()) nearest = nearest_name(name, {all.begin(), all.end()});
    return nearest.empty() ? "" : "; the nearest name there is " + nearest;
  }

  std::array<const Weights*, 2> sides_;
};

}  // namespace

double copy_bound(const WholeTensor& a, const WholeTensor& b) {
  const Rounding of_a = rounding_of(a), of_b = rounding_of(b);
  const Rounding& coarser = of_a.unit_roundoff > of_b.unit_roundoff ? of_a : of_b;
  const double norm = std::max(a.norm, b.norm);
  const auto elements = static_cast<double>(std::max(a.elements, b.elements));
  const double tiny = norm > 0 ? coarser.smallest_subnormal / 2 * std::sqrt(elements) / norm : 0;
  return coarser.unit_roundoff + tiny;
}

Weights weights_of_checkpoint(const std::filesystem::path& path, const std::string& shown) {
  const Checkpoint checkpoint = open_checkpoint(path);
  Weights weights;
  weights.side.folder = shown;
  weights.side.title = checkpoint.title;
  weights.side.tensors = static_cast<std::int64_t>(checkpoint.tensors.size());
  weights.side.optimizer_tensors = checkpoint.optimizer_tensors;
  weights.side.other_values = checkpoint.other_values;
  std::vector<std::pair<WholeTensorKey, WholeTensor>> tensors;
  for (const CheckpointTensor& tensor : checkpoint.tensors) {
    tensors.emplace_back(key_of_weight(tensor.name),
                         measured(std::make_shared<const CheckpointTensor>(tensor)));
  }
  weights.tensors = WholeTensors(std::move(tensors));
  return weights;
}

Weights weights_of_job(const SideFiles& files, std::int64_t step) {
  const auto& steps = files.steps();
  if (steps.empty()) throw unreadable(files.shown(), "it observed no step", "Watch more steps");
  if (step == 0) step = steps.back();
  if (!files.has(step)) {
    throw bad_value("--align", std::to_string(step),
                    fmt::format("a step that {} observed, {} to {}", files.shown(), steps.front(),
                                steps.back()));
  }
  Weights weights;
  weights.step = step;
  weights.side = side_of(files);
  std::vector<std::pair<WholeTensorKey, WholeTensor>> tensors;
  const WholeTensors observed(*files.at(step));
  for (const auto& one : observed.all()) {
    if (one.first.kind == Kind::parameter && one.first.phase == Phase::post_step) {
      tensors.push_back(one);
    }
  }
  weights.tensors = WholeTensors(std::move(tensors));
  return weights;
}

ComparedPair diff_weights(Weights a, Weights b, std::vector<Weights> noise,
                          const WeightsRequest& request) {
  for (Weights& run : noise) name_as_model(names_in(a.tensors), run);
  const std::set<std::string> of_a = names_in(a.tensors);
  name_as_model(names_in(b.tensors), a);
  name_as_model(of_a, b);
  const std::set<std::string> old_names = names_in(a.tensors);
  request.names.rename(a.tensors);
  request.names.fuse(b.tensors);
  measure_fused(b);
  for (Weights& run : noise) request.names.rename(run.tensors);
  const RepetitionDistances distances(noise, a, b);
  ComparedPair diff;
  diff.sides = {a.side, b.side};
  match_names(names_in(a.tensors), names_in(b.tensors), diff);
  const MissingTensors missing(a, b);
  missing.find_tied(diff);
  diff.unmapped =
      request.names.unknown([&](const std::string& name) { return old_names.contains(name); });
  StepDifference step{a.step, b.step, 0, "", {}};
  for (const auto& [key, tensor] : a.tensors.all()) {
    const WholeTensor* const other = b.tensors.find(key);
    if (!other) continue;
    const auto distance = distances.of(key.name);
    const bool may_be_drift = !distance && !request.are_same_values;
    step.tensors.push_back(compare_weight(tensor, *other, distance, may_be_drift));
    TensorDifference& found = step.tensors.back();
    found.name = key.name;
    const bool has_drifted = may_be_drift && found.likeness == Likeness::undecided;
    if (has_drifted && found.cause.empty()) step.undecidable = kDrift;
  }
  if (step.tensors.empty()) {
    step.undecidable = "no tensor has the same name on both sides";
  } else if (!request.may_lack) {
    missing.add(diff, step.tensors);
  }
  diff.steps.push_back(std::move(step));
  conclude(diff);
  return diff;
}

}  // namespace lockstep
