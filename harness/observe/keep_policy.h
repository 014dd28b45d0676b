#pragma once

#include <cstdint>
#include <limits>

namespace lockstep {

/// Which values one rank keeps in its snapshots, in the whole run. A value that is not kept has its
/// row in the journal all the same.
class KeepPolicy {
 public:
  static KeepPolicy none() { return at_most(0); }
  static KeepPolicy all() { return at_most(std::numeric_limits<std::uint64_t>::max()); }

  /// Keeps each value that fits into what is left of `bytes`, in the order in which they are
  /// observed: a smaller one behind one that does not fit may be kept. Once nothing is left,
  /// nothing is kept, values without elements included. Counts the bytes of the values alone.
  static KeepPolicy at_most(std::uint64_t bytes) { return KeepPolicy(bytes); }

  /// Whether a value of `bytes` bytes is kept. If so, they are no longer left.
  bool take(std::uint64_t bytes) {
    if (left_ == 0 || bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  explicit KeepPolicy(std::uint64_t bytes) : left_(bytes) {}

  std::uint64_t left_;
};

}  // namespace lockstep
