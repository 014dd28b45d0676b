#include "harness/compare/value.h"

#include <cmath>

#include "harness/record/dtype.h"

namespace lockstep {

double roundoff_of(const std::string& dtype) {
  const auto parsed = parse<DType>(dtype);
  return parsed ? unit_roundoff(component_type(*parsed)) : 0;
}

double root_mean_square(const Value& value) {
  return value.elements > 0 ? value.norm / std::sqrt(static_cast<double>(value.elements)) : 0;
}

bool has_same_bits(const Value& a, const Value& b) {
  return a.digest && b.digest && a.digest == b.digest && a.dtype == b.dtype;
}

}  // namespace lockstep
