#pragma once

namespace lockstep {

/// Divisors of gradients before and after the sum over ranks. Each is about the square root of the
/// number of ranks, the first a power of two, because half precision has a narrow range.
struct GradientDivisors {
  double before = 1;
  double after = 1;
};

/// The choice of torch's sharded engines.
GradientDivisors gradient_divisors(int world_size);

}  // namespace lockstep
