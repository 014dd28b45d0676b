#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/digest.h"
#include "harness/record/sketch.h"

namespace lockstep {

/// A tensor, as far as a record or a checkpoint tells of it.
struct Value {
  std::string dtype;
  std::int64_t elements = 0;
  std::optional<std::vector<std::int64_t>> shape;  ///< absent: unknown
  std::optional<Digest> digest;                    ///< of the row-major bytes; absent: unknown
  double norm = 0;                                 ///< L2
  std::int64_t non_finite = 0;                     ///< elements
  std::optional<Sketch> sketch;
  /// All components, row by row, as numbers; null: they are not stored.
  std::shared_ptr<const std::vector<double>> numbers = {};
  int parts = 1;              ///< into which ranks divide it
  int copies = 1;             ///< ranks that hold the same part
  bool is_undefined = false;  ///< there is no gradient
  std::string problem;        ///< why it cannot be put together; empty: it is whole
};

/// The unit roundoff of a dtype, by its name; 0 for integers.
double roundoff_of(const std::string& dtype);

/// Root mean square of the elements; 0 if there are none.
double root_mean_square(const Value& value);

bool has_same_bits(const Value& a, const Value& b);

}  // namespace lockstep
