#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lockstep {

/// A JSON value as a whole number. Throws a standard exception for a fraction and for a number
/// outside the range of `Integer`, which nlohmann's own conversion would silently change. `name`:
/// of the value, for the exception.
template <class Integer, class Json>
Integer as_whole_number(const Json& value, const char* name) {
  const bool fits =
      value.is_number_unsigned()
          ? std::in_range<Integer>(value.template get<std::uint64_t>())
          : value.is_number_integer() && std::in_range<Integer>(value.template get<std::int64_t>());
  if (!fits) throw std::out_of_range(name);
  return value.template get<Integer>();
}

/// The whole number `name` of a JSON object.
template <class Integer, class Json>
Integer whole_number(const Json& object, const char* name) {
  return as_whole_number<Integer>(object.at(name), name);
}

/// The list `name` of whole numbers of a JSON object.
template <class Integer, class Json>
std::vector<Integer> whole_numbers(const Json& object, const char* name) {
  const Json& list = object.at(name);
  if (!list.is_array()) throw std::out_of_range(name);
  std::vector<Integer> numbers;
  for (const Json& value : list) numbers.push_back(as_whole_number<Integer>(value, name));
  return numbers;
}

}  // namespace lockstep
