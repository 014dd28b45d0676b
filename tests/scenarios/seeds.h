#pragma once

#include <cstdlib>
#include <numeric>
#include <vector>

namespace lockstep {

/// The seeds of a random test: LOCKSTEP_TEST_SEEDS of them, else `count`, from
/// LOCKSTEP_FIRST_TEST_SEED on, else 0.
inline std::vector<int> seeds(int count) {
  const char* const asked = std::getenv("LOCKSTEP_TEST_SEEDS");
  const char* const first = std::getenv("LOCKSTEP_FIRST_TEST_SEED");
  std::vector<int> all(static_cast<std::size_t>(asked ? std::atoi(asked) : count));
  std::iota(all.begin(), all.end(), first ? std::atoi(first) : 0);
  return all;
}

}  // namespace lockstep
