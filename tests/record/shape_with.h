#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/record/observation.h"

namespace lockstep {

/// The shape with another number for one of its dimensions.
inline Shape with(Shape shape, std::size_t dimension, std::int64_t number) {
  shape.at(dimension) = number;
  return shape;
}

}  // namespace lockstep
