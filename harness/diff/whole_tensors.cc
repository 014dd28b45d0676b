#include "harness/diff/whole_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "harness/compare/value_difference.h"
#include "harness/judge/evidence/observations.h"
#include "harness/record/measure.h"
#include "harness/record/shard_runs.h"

namespace lockstep {

namespace {

/// A part of a tensor, as the first rank with it holds it.
struct Part {
  int rank = 0;
  const Observation* value = nullptr;
  std::optional<Sketch> sketch;
  const SnapshotTensor* stored = nullptr;
  int copies = 1;
};

bool is_same_place(const Observation& a, const Observation& b) {
  return a.offset == b.offset && a.local_shape == b.local_shape &&
         a.global_shape == b.global_shape && a.dtype == b.dtype;
}

/// Whether two rows at one place hold copies. Summands of other groups are added up instead.
bool are_copies(const Observation& a, const Observation& b) {
  return a.is_summand == b.is_summand && (!a.is_summand || a.replica_group == b.replica_group);
}

/// Whether two boxes in one tensor have elements in common that are not added up.
bool overlap(const Observation& a, const Observation& b) {
  if (a.is_summand && b.is_summand && is_same_place(a, b)) return false;
  for (std::size_t i = 0; i < a.offset.size(); ++i) {
    const bool is_apart = a.offset[i] + a.local_shape[i] <= b.offset[i] ||
                          b.offset[i] + b.local_shape[i] <= a.offset[i];
    if (is_apart) return false;
  }
  return true;
}

/// As it was stored, or that of a snapshot.
std::optional<Sketch> sketch_of_row(const StepView& step, int rank, const Observation& row) {
  if (const Sketch* const stored = step.sketch(rank, row)) return *stored;
  const SnapshotTensor* const values = step.kept(rank, row);
  return values ? std::optional(sketch_of(row, values->bytes)) : std::nullopt;
}

/// Adds the components of a part to those of the whole tensor. Those that are not finite count as
/// 0, as in sketches.
void add_numbers(const Part& part, std::vector<double>& whole) {
  const std::vector<double> own = components_of(*part.stored);
  const auto each = static_cast<std::size_t>(components(part.stored->dtype));
  std::size_t next = 0;
  for (const Run& run : runs_of(*part.value)) {
    const std::size_t begin = static_cast<std::size_t>(run.begin) * each;
    const std::size_t count = static_cast<std::size_t>(run.length) * each;
    for (std::size_t i = 0; i < count; ++i, ++next) {
      if (std::isfinite(own[next])) whole[begin + i] += own[next];
    }
  }
}

/// The components of the tensor that parts make up; null: those of one are not stored, or they are
/// too many. Requires: parts cover one tensor.
std::shared_ptr<const std::vector<double>> numbers_of(const std::vector<Part>& parts) {
  constexpr std::int64_t kMost = std::int64_t{1} << 22;  // elements, of 8 bytes each
  const auto elements = element_count(parts[0].value->global_shape);
  const bool are_stored = std::ranges::all_of(parts, [](const Part& part) { return part.stored; });
  if (!are_stored || elements > kMost) return nullptr;
  std::vector<double> whole(static_cast<std::size_t>(elements) *
                            static_cast<std::size_t>(components(parts[0].stored->dtype)));
  for (const Part& part : parts) add_numbers(part, whole);
  return std::make_shared<const std::vector<double>>(std::move(whole));
}

/// The parts of one tensor on all ranks.
class Assembly {
 public:
  void add(int rank, const Observation& row, const StepView& step) {
    if (!row.not_comparable.empty()) {
      has_undefined_ = has_undefined_ || is_undefined(row);
      if (reason_.empty()) reason_ = row.not_comparable;
      return;
    }
    const auto copy = std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) {
      return is_same_place(*part.value, row) && are_copies(*part.value, row);
    });
    if (copy == parts_.end()) {
      if (element_count(row.local_shape) > 0 || parts_.empty())
        parts_.push_back({rank, &row, sketch_of_row(step, rank, row), step.kept(rank, row)});
      return;
    }
    ++copy->copies;
    if (copy->value->digest == row.digest) return;
    if (problem_.empty()) {
      problem_ = fmt::format("ranks {} and {} hold different values of it", copy->rank, rank);
    }
    const bool is_known = std::any_of(others_.begin(), others_.end(), [&](const Part& other) {
      return other.value->digest == row.digest;
    });
    if (is_known || others_.size() == WholeTensor::kMostValues) return;
    others_.push_back({rank, &row, sketch_of_row(step, rank, row), step.kept(rank, row)});
  }

  WholeTensor whole() const {
    WholeTensor tensor;
    if (!parts_.empty()) tensor = sum_of(parts_);
    if (std::string found = problem(); !found.empty()) tensor.problem = std::move(found);
    if (tensor.problem.empty()) tensor.numbers = numbers_of(parts_);
    tensor.is_undefined = parts_.empty() && has_undefined_;
    if (parts_.size() != 1 || parts_[0].value->local_shape != parts_[0].value->global_shape) {
      return tensor;
    }
    for (const Part& other : others_) tensor.others.push_back(sum_of({other}));
    return tensor;
  }

 private:
  static WholeTensor sum_of(const std::vector<Part>& parts) {
    WholeTensor tensor;
    tensor.rank = parts[0].rank;
    tensor.parts = static_cast<int>(parts.size());
    tensor.copies = parts[0].copies;
    tensor.dtype = parts[0].value->dtype;
    tensor.elements = element_count(parts[0].value->global_shape);
    // One dimension may be that of a tensor that was flattened before it was cut.
    if (parts[0].value->global_shape.size() != 1) tensor.shape = parts[0].value->global_shape;
    Digest digest;
    Sketch sketch;
    double squares = 0;
    bool has_sketches = true;
    for (const Part& part : parts) {
      digest += part.value->digest;
      squares += part.value->statistics.norm * part.value->statistics.norm;
      tensor.non_finite += part.value->statistics.non_finite;
      has_sketches = has_sketches && part.sketch;
      if (part.sketch) sketch += *part.sketch;
    }
    tensor.norm = std::sqrt(squares);
    tensor.digest = digest;
    if (has_sketches) tensor.sketch = sketch;
    if (parts.size() > 1 && parts[0].value->is_summand) add_summands(tensor);
    return tensor;
  }

  /// Neither digests nor norms of summands add up.
  static void add_summands(WholeTensor& sum) {
    sum.digest.reset();
    if (sum.sketch) {
      sum.norm = norm_of(*sum.sketch);
    } else {
      sum.problem = "it is a sum over ranks, and its summands are not known by a sketch";
    }
  }

  std::string problem() const {
    if (!problem_.empty()) return problem_;
    if (parts_.empty()) return reason_.empty() ? "it is nowhere" : reason_;
    const Observation& first = *parts_[0].value;
    std::int64_t elements = 0;
    for (const Part& part : parts_) {
      const bool is_of_it =
          part.value->global_shape == first.global_shape && part.value->dtype == first.dtype;
      if (!is_of_it) {
        return fmt::format("ranks {} and {} hold tensors of other shapes by this name",
                           parts_[0].rank, part.rank);
      }
      if (is_first_summand(part)) elements += element_count(part.value->local_shape);
    }
    std::string overlapping = overlap_of_parts();
    if (!overlapping.empty()) return overlapping;
    const std::int64_t whole = element_count(first.global_shape);
    return elements == whole ? ""
                             : fmt::format("ranks hold {} of its {} elements", elements, whole);
  }

  std::string overlap_of_parts() const {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (!overlap(*parts_[i].value, *parts_[j].value)) continue;
        return fmt::format("the parts of ranks {} and {} overlap", parts_[j].rank, parts_[i].rank);
      }
    }
    return "";
  }

  /// Whether no part before it lies at the same place, as other summands of it do.
  bool is_first_summand(const Part& part) const {
    const auto first = std::find_if(parts_.begin(), parts_.end(), [&](const Part& one) {
      return is_same_place(*one.value, *part.value);
    });
    return first->value == part.value;
  }

  std::vector<Part> parts_;
  std::vector<Part> others_;  ///< copies of a part with other bits
  std::string reason_;        ///< why a rank could not observe it
  std::string problem_;       ///< of copies
  bool has_undefined_ = false;
};

/// Where in a step an observation is, on any layout.
struct Moment {
  Phase phase = Phase::pre_forward;
  std::int64_t seq = 0;
  int rank = 0;

  auto operator<=>(const Moment&) const = default;
};

bool is_of_model(const Observation& row) {
  const bool is_of_micro_batch = row.phase == Phase::post_backward && row.kind != Kind::parameter;
  if (row.kind == Kind::buffer) return row.phase == Phase::post_step;
  return !is_of_micro_batch && (row.kind == Kind::parameter || row.kind == Kind::gradient ||
                                row.kind == Kind::loss || row.kind == Kind::optimizer_state);
}

}  // namespace

std::string parameter_of(const WholeTensorKey& key) {
  if (key.kind != Kind::optimizer_state) return key.name;
  return key.name.substr(0, key.name.rfind(": "));
}

WholeTensors::WholeTensors(const StepView& step) {
  std::map<WholeTensorKey, Assembly> assemblies;
  std::map<WholeTensorKey, Moment> moments;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& row : step.observations(rank)) {
      if (!is_of_model(row)) continue;
      const WholeTensorKey key{row.phase, row.kind, row.name};
      assemblies[key].add(rank, row, step);
      moments.try_emplace(key, Moment{row.phase, row.seq, rank});
    }
  }
  std::vector<std::pair<Moment, WholeTensorKey>> order;
  for (const auto& [key, moment] : moments) order.emplace_back(moment, key);
  std::sort(order.begin(), order.end());
  for (const auto& [moment, key] : order) tensors_.emplace_back(key, assemblies[key].whole());
  rebuild();
}

WholeTensors::WholeTensors(std::vector<std::pair<WholeTensorKey, WholeTensor>> tensors)
    : tensors_(std::move(tensors)) {
  rebuild();
}

const WholeTensor* WholeTensors::find(const WholeTensorKey& key) const {
  const auto place = places_.find(key);
  return place == places_.end() ? nullptr : &tensors_[place->second].second;
}

namespace {

/// Where the elements of the tensor are that `parts` make up in this order; null: unknown.
std::shared_ptr<const CheckpointTensor> stacked_parts(
    const std::vector<std::string>& parts,
    const std::vector<std::pair<WholeTensorKey, WholeTensor>>& tensors) {
  std::vector<const CheckpointTensor*> stored;
  for (const std::string& part : parts) {
    for (const auto& [key, tensor] : tensors) {
      if (key.name == part && tensor.stored) stored.push_back(tensor.stored.get());
    }
  }
  if (stored.size() != parts.size()) return nullptr;
  auto whole = stacked(stored);
  return whole ? std::make_shared<const CheckpointTensor>(std::move(*whole)) : nullptr;
}

/// Tensors of one parameter, or of several that are made one, are alike in this.
struct Alike {
  Phase phase = Phase::pre_forward;
  Kind kind = Kind::parameter;
  std::string of_state;  ///< ": exp_avg"; empty: it is no state of an optimizer

  auto operator<=>(const Alike&) const = default;
};

/// The places of the tensors of parameters with these names.
std::map<Alike, std::vector<std::size_t>> places_of(
    const std::vector<std::string>& names,
    const std::vector<std::pair<WholeTensorKey, WholeTensor>>& tensors) {
  std::map<Alike, std::vector<std::size_t>> found;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const WholeTensorKey& key = tensors[i].first;
    const std::string parameter = parameter_of(key);
    const bool is_named = std::find(names.begin(), names.end(), parameter) != names.end();
    if (is_named) {
      found[{key.phase, key.kind, key.name.substr(parameter.size())}].push_back(i);
    }
  }
  return found;
}

/// Of the parts at these places, the first becomes the whole, and the others lose their names.
void join(const std::vector<std::size_t>& places,
          std::vector<std::pair<WholeTensorKey, WholeTensor>>& tensors) {
  WholeTensor& whole = tensors[places[0]].second;
  double squares = 0;
  std::int64_t elements = 0;
  for (const std::size_t place : places) {
    const WholeTensor& part = tensors[place].second;
    squares += part.norm * part.norm;
    elements += part.elements;
    if (whole.problem.empty()) whole.problem = part.problem;
    if (place == places[0]) continue;
    whole.non_finite += part.non_finite;
    tensors[place].first.name.clear();
  }
  whole.norm = std::sqrt(squares);
  whole.elements = elements;
  whole.shape.reset();
  whole.digest.reset();
  whole.sketch.reset();
  whole.numbers.reset();
}

/// The same of states that count steps: parts have one number each.
void keep_first(const std::vector<std::size_t>& places,
                std::vector<std::pair<WholeTensorKey, WholeTensor>>& tensors) {
  WholeTensor& first = tensors[places[0]].second;
  for (std::size_t i = 1; i < places.size(); ++i) {
    auto& [key, other] = tensors[places[i]];
    if (other.digest != first.digest) first.problem = "its parts have other values";
    key.name.clear();
  }
}

}  // namespace

void WholeTensors::fuse(const std::vector<std::string>& parts, const std::string& name) {
  const auto stored = parts.size() > 1 ? stacked_parts(parts, tensors_) : nullptr;
  for (const auto& [where, places] : places_of(parts, tensors_)) {
    if (places.size() != parts.size()) continue;
    auto& [key, whole] = tensors_[places[0]];
    key.name = name + where.of_state;
    if (places.size() == 1) continue;
    if (!where.of_state.empty() && whole.elements == 1) {
      keep_first(places, tensors_);
      continue;
    }
    join(places, tensors_);
    whole.stored = stored;
  }
  std::erase_if(tensors_, [](const auto& one) { return one.first.name.empty(); });
  rebuild();
}

void WholeTensors::rebuild() {
  places_.clear();
  for (std::size_t i = 0; i < tensors_.size(); ++i) places_.emplace(tensors_[i].first, i);
}

}  // namespace lockstep
