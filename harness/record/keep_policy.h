#pragma once

#include <cstdint>
#include <limits>

namespace lockstep {

/// Selects the values that one rank stores as snapshots in the whole run. Every other value still
/// has its row in the journal.
class KeepPolicy {
 public:
  static KeepPolicy none() { return at_most(0); }
  static KeepPolicy all() { return at_most(std::numeric_limits<std::uint64_t>::max()); }

  /// Stores each value that fits into the rest of `bytes`, in observation order: a smaller value
  /// after one that does not fit may be stored. Once `bytes` are used up, no value is stored, not
  /// even one without elements. Counts only the bytes of the values.
  static KeepPolicy at_most(std::uint64_t bytes) { return KeepPolicy(bytes); }

  /// Whether a value of `bytes` bytes is stored. If so, they are subtracted.
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
