#pragma once

namespace lockstep {

/// What gradients are divided by before and after they are summed over ranks: about the square root
/// of the number of ranks each, the first a power of two, since half precision has a narrow range.
struct GradientDivisors {
  double before = 1;
  double after = 1;
};

/// As torch's sharded engines choose them.
GradientDivisors gradient_divisors(int world_size);

}  // namespace lockstep
