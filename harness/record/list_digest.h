#pragma once

#include <cstdint>

#include "harness/record/digest.h"
#include "harness/record/splitmix64.h"

namespace lockstep {

/// Order-dependent digest of a list of numbers: different lists share a digest only by chance.
class ListDigest {
 public:
  void add(std::uint64_t number) {
    state_.low = splitmix64(state_.low ^ number);
    state_.high = splitmix64(state_.high + (number ^ kOther));
  }

  void add(const Digest& digest) {
    add(digest.low);
    add(digest.high);
  }

  const Digest& digest() const { return state_; }

 private:
  static constexpr std::uint64_t kOther = 0x5851f42d4c957f2d;  // makes the lanes differ

  Digest state_{1, 2};
};

}  // namespace lockstep
