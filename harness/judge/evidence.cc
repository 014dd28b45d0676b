#include "harness/judge/evidence.h"

#include <utility>

#include "reports/error.h"

namespace lockstep {

namespace fs = std::filesystem;

Evidence::Evidence(fs::path folder, int processes) : folder_(std::move(folder)) {
  for (int rank = 0; rank < processes; ++rank) {
    const fs::path file = folder_ / ("rank-" + std::to_string(rank) + ".csv");
    journals_.push_back(fs::exists(file) ? read_journal(file) : Journal{});
    if (journals_.back().torn_tail) {
      notes_.push_back("rank " + std::to_string(rank) +
                       ": the last row of its journal was torn and left out");
    }
  }
}

const std::vector<Observation>& Evidence::observations(int rank) const {
  return journals_.at(static_cast<std::size_t>(rank)).observations;
}

const KeptTensor* Evidence::kept(int rank, const Observation& observation) const {
  const auto place = std::pair(rank, observation.step);
  auto step = kept_.find(place);
  if (step == kept_.end()) {
    const fs::path file = kept_file(folder_, rank, observation.step);
    // A rank that was killed did not come to write the values of its last step.
    step = kept_
               .emplace(place, fs::exists(file) ? read_safetensors(file)
                                                : std::map<std::string, KeptTensor>{})
               .first;
  }
  const auto tensor = step->second.find(kept_key(observation));
  return tensor == step->second.end() ? nullptr : &tensor->second;
}

}  // namespace lockstep
