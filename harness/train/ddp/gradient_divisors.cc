#include "harness/train/ddp/gradient_divisors.h"

namespace lockstep {

GradientDivisors gradient_divisors(int world_size) {
  GradientDivisors divisors;
  while (world_size % static_cast<int>(divisors.before) == 0 &&
         world_size / divisors.before > divisors.before) {
    divisors.before *= 2;
  }
  divisors.after = world_size / divisors.before;
  return divisors;
}

}  // namespace lockstep
