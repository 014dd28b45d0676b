#include "harness/judge/evidence/step_view.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace lockstep {

StepView::StepView(std::int64_t number, std::vector<Rank> ranks)
    : number_(number), ranks_(std::move(ranks)) {
  for (const Rank& rank : ranks_) {
    size_ += rank.observations.size() * sizeof(Observation);
    size_ += rank.sketches.size() * sizeof(Sketch);
    for (const auto& [key, tensor] : rank.tensors) size_ += sizeof(tensor) + tensor.bytes.size();
  }
}

StepView::StepView(std::int64_t number, std::vector<Tensors> tensors)
    : number_(number), has_values_(false), tensors_(std::move(tensors)) {
  for (const Tensors& rank : tensors_) size_ += rank.rows.size() * sizeof(SeenTensor);
}

bool StepView::has_row(int rank, const std::function<bool(const ObservedTensor&)>& is_it) const {
  const auto place = static_cast<std::size_t>(rank);
  if (has_values_) {
    return std::ranges::any_of(ranks_.at(place).observations,
                               [&](const Observation& one) { return !is_it || is_it(one); });
  }
  return std::ranges::any_of(tensors_.at(place).rows, [&](const SeenTensor& one) {
    return one.tensor && (!is_it || is_it(one.tensor->tensor));
  });
}

StepView StepView::only(int rank) const {
  return {number_, {ranks_.at(static_cast<std::size_t>(rank))}};
}

std::span<const Observation> StepView::observations(int rank) const {
  if (!has_values_) throw std::logic_error("a step without values was asked for them");
  return ranks_.at(static_cast<std::size_t>(rank)).observations;
}

const SnapshotTensor* StepView::kept(int rank, const Observation& observation) const {
  const auto& tensors = ranks_.at(static_cast<std::size_t>(rank)).tensors;
  if (tensors.empty()) return nullptr;
  const auto tensor = tensors.find(snapshot_key(observation));
  return tensor == tensors.end() ? nullptr : &tensor->second;
}

const Sketch* StepView::sketch(int rank, const Observation& observation) const {
  const auto& sketches = ranks_.at(static_cast<std::size_t>(rank)).sketches;
  const auto found = sketches.find(observation.seq);
  return found == sketches.end() ? nullptr : &found->second;
}

}  // namespace lockstep
