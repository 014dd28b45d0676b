#pragma once

#include <cstdint>

namespace lockstep {

/// The output of splitmix64 in state `x`; the next state is x + kSplitmixStep.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
inline constexpr std::uint64_t kSplitmixStep = 0x9e3779b97f4a7c15;

constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += kSplitmixStep;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace lockstep
