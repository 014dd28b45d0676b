#pragma once

#include <cstdint>

#include "harness/record/digest.h"
#include "harness/record/splitmix64.h"

namespace lockstep {

/// A digest of a list of numbers, in their order: two lists share one by chance alone.
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
  static constexpr std::uint64_t kOther = 0x5851f42d4c957f2d;  // the lanes see other numbers

  Digest state_{1, 2};
};

}  // namespace lockstep
