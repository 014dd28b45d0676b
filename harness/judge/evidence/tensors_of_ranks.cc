#include "harness/judge/evidence/tensors_of_ranks.h"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

/// Calls `see` with each tensor of each rank, ranks ascending and each pair once.
template <class See>
void for_each_pair(std::size_t tensors, const std::vector<std::vector<std::uint32_t>>& observed,
                   const See& see) {
  std::vector<int> last(tensors, -1);
  for (std::size_t place = 0; place < observed.size(); ++place) {
    const auto rank = static_cast<int>(place);
    for (const std::uint32_t number : observed[place]) {
      // Two tensors of a rank may have one name among those of the other ranks.
      if (std::exchange(last[number], rank) != rank) see(number, rank);
    }
  }
}

}  // namespace

TensorsOfRanks::TensorsOfRanks(std::shared_ptr<const KnownTensors> known,
                               const std::vector<std::vector<std::uint32_t>>& observed)
    : known_(std::move(known)), begins_(known_->size() + 1) {
  const std::size_t tensors = known_->size();
  for_each_pair(tensors, observed, [&](std::uint32_t number, int) { ++begins_[number + 1]; });
  for (std::size_t number = 0; number < tensors; ++number) {
    if (begins_[number + 1] > 0) order_.push_back(static_cast<std::uint32_t>(number));
    begins_[number + 1] += begins_[number];
  }
  ranks_.resize(begins_.back());
  std::vector<std::size_t> ends(begins_.begin(), begins_.end() - 1);
  for_each_pair(tensors, observed,
                [&](std::uint32_t number, int rank) { ranks_[ends[number]++] = rank; });
  std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {
    return (*known_)[a].tensor < (*known_)[b].tensor;
  });
}

TensorsOfRanks::Entry TensorsOfRanks::at(std::size_t place) const {
  const std::uint32_t number = order_[place];
  const std::size_t begin = begins_[number];
  return {(*known_)[number].tensor, {ranks_.data() + begin, begins_[number + 1] - begin}};
}

}  // namespace lockstep
