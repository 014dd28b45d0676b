#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "harness/record/observation.h"

namespace lockstep {

/// Position of a finding, in execution order.
struct ValuePlace {
  std::int64_t step = 0;
  std::int64_t seq = 0;
  std::string tensor;

  bool operator<(const ValuePlace& other) const {
    return std::pair(step, seq) < std::pair(other.step, other.seq);
  }
};

inline ValuePlace place_of(const Observation& observation) {
  return {observation.step, observation.seq, observation.name};
}

}  // namespace lockstep
