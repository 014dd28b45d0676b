#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "tests/temporary_folder.h"

namespace lockstep {

/// Reads an input that was made before.
using Work = std::function<void()>;

/// Makes an input of `n` things in an empty folder.
using MakeWork = std::function<Work(const std::filesystem::path& folder, int n)>;

/// CPU time that this process has used, in its threads and in the kernel. A busy machine does not
/// change it by much.
inline double cpu_s() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The cost of reading n, 2n and 4n things.
class Costs {
 public:
  Costs(const MakeWork& make, int n) {
    for (std::size_t i = 0; i < works_.size(); ++i) {
      const auto folder = place_.path() / std::to_string(i);
      std::filesystem::create_directory(folder);
      works_[i] = make(folder, n << i);
    }
  }

  /// Runs each once more. The least time counts: nothing makes a program faster than it is.
  void measure() {
    for (std::size_t i = 0; i < works_.size(); ++i) {
      const double begin = cpu_s();
      works_[i]();
      least_s_[i] = std::min(least_s_[i], cpu_s() - begin);
    }
  }

  /// The exponent of n in the cost: 1 if it is linear, 2 if it is quadratic.
  double exponent() const { return std::log2(least_s_.back() / least_s_.front()) / 2; }

  /// Of 4n things, in seconds.
  double largest_s() const { return least_s_.back(); }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  TemporaryFolder place_;
  std::array<Work, 3> works_;
  std::array<double, 3> least_s_{kNone, kNone, kNone};
};

/// An exponent above this one is not that of a linear cost.
constexpr double kSteepest = 1.3;

struct Slope {
  double exponent = 0;
  int n = 0;  ///< the largest number of things that were read
  double largest_s = 0;
};

/// The exponent of n in a cost. Where it is steep, four times as many things are read, too, and
/// what they cost counts: a square is steeper there, while the caches of a busy machine, which hold
/// few things but not many, matter less.
inline Slope slope_of(const MakeWork& make, int n) {
  constexpr int kAtLeast = 3, kAtMost = 12, kSizes = 3;
  Slope slope;
  for (int size = 0; size < kSizes; ++size, n *= 4) {
    Costs costs(make, n);
    for (int i = 0; i < kAtMost && (i < kAtLeast || costs.exponent() > kSteepest); ++i) {
      costs.measure();
    }
    slope = {costs.exponent(), 4 * n, costs.largest_s()};
    if (slope.exponent <= kSteepest) break;
  }
  return slope;
}

}  // namespace lockstep
