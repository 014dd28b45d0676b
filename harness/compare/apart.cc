#include "harness/compare/apart.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace lockstep {

namespace {

/// `sketches`: whose squares each sum is that of.
template <class Numbers>
Apart apart_of(const Numbers& left, const Numbers& right, double sketches) {
  double squares = 0, others = 0, both = 0, apart = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    squares += left[i] * left[i];
    others += right[i] * right[i];
    both += left[i] * right[i];
    apart += (right[i] - left[i]) * (right[i] - left[i]);
  }
  Apart found;
  found.norm = std::sqrt(apart / sketches);
  found.left = std::sqrt(squares / sketches);
  found.right = std::sqrt(others / sketches);
  if (squares > 0) found.ratio = both / squares;
  if (squares > 0 && others > 0) {
    found.cosine = std::clamp(both / (std::sqrt(squares) * std::sqrt(others)), -1.0, 1.0);
  }
  double rest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double one = right[i] - found.ratio.value_or(0) * left[i];
    rest += one * one;
  }
  found.rest = std::sqrt(rest / sketches);
  return found;
}

}  // namespace

Apart apart_of(const std::vector<double>& left, const std::vector<double>& right) {
  return apart_of(left, right, 1);
}

bool have_numbers(const Value& left, const Value& right) {
  return left.numbers && right.numbers && left.numbers->size() == right.numbers->size();
}

std::optional<Apart> apart_of(const Value& left, const Value& right) {
  if (have_numbers(left, right)) return apart_of(*left.numbers, *right.numbers);
  if (!left.sketch || !right.sketch) return std::nullopt;
  return apart_of(*left.sketch, *right.sketch);
}

Apart apart_of(const Sketch& left, const Sketch& right) {
  return apart_of(left.lanes, right.lanes, ComponentSums::kSketches);
}

}  // namespace lockstep
