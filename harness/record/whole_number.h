#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace lockstep {

/// The whole number `name` of a JSON object. Throws a standard exception for a fraction and for a
/// number outside the range of `Integer`, which nlohmann's own conversion would silently change.
template <class Integer, class Json>
Integer whole_number(const Json& object, const char* name) {
  const Json& value = object.at(name);
  const bool fits =
      value.is_number_unsigned()
          ? std::in_range<Integer>(value.template get<std::uint64_t>())
          : value.is_number_integer() && std::in_range<Integer>(value.template get<std::int64_t>());
  if (!fits) throw std::out_of_range(name);
  return value.template get<Integer>();
}

}  // namespace lockstep
