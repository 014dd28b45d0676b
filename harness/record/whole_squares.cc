#include "harness/record/whole_squares.h"

#include <bit>
#include <cmath>

namespace lockstep {

double root_of(const WholeSquares& sum) {
  // The 64 highest bits. The lowest is set if any bit below is: it only decides ties.
  std::uint64_t upper = sum.high, lower = sum.middle, rest = sum.low;
  int exponent = 128;
  while (upper == 0 && exponent > 0) {
    upper = lower;
    lower = rest;
    rest = 0;
    exponent -= 64;
  }
  if (exponent > 0) {
    const int free = std::countl_zero(upper);
    if (free > 0) {
      upper = upper << free | lower >> (64 - free);
      lower <<= free;
    }
    exponent -= free;
    upper |= (lower | rest) != 0 ? 1 : 0;
  }
  return std::sqrt(std::scalbn(static_cast<double>(upper), exponent));
}

}  // namespace lockstep
