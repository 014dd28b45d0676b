#include "harness/judge/values/tolerance.h"

#include <cmath>

namespace lockstep {

double rounding_tolerance(double unit_roundoff, int world_size) {
  return 2 * unit_roundoff * world_size;
}

double summation_tolerance(double unit_roundoff, int world_size) {
  return 2 * unit_roundoff * std::sqrt(world_size);
}

}  // namespace lockstep
