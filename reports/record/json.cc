#include "reports/record/json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "reports/base/names.h"
#include "reports/base/plain_text.h"
#include "reports/record/record_fields.h"
#include "reports/record/without_secrets.h"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
requires(std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) Json to_json(const T& value) {
  return value;
}

/// JSON cannot represent non-finite numbers.
Json to_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return value;
}

template <class T>
requires std::is_enum_v<T> Json to_json(T value) { return name(value); }

template <HasFields T>
Json to_json(const T& value);
template <class T>
Json to_json(const std::optional<T>& value);
template <class T>
Json to_json(const std::vector<T>& values);

Json to_json(const std::vector<std::pair<std::string, std::string>>& variables) {
  Json object = Json::object();
  for (const auto& [variable, value] : variables) object[variable] = value;
  return object;
}

template <class T>
Json to_json(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(to_json(value));
  return array;
}

template <class T, std::size_t size>
Json to_json(const std::array<T, size>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(to_json(value));
  return array;
}

template <class T>
Json to_json(const std::optional<T>& value) {
  return value ? to_json(*value) : Json();
}

template <HasFields T>
Json to_json(const T& value) {
  Json object = Json::object();
  for_each_field<T>(
      [&](const auto& field) { object[std::string(field.name)] = to_json(value.*field.member); });
  return object;
}

}  // namespace

std::string without_commands(const std::string& json) {
  std::string safe;
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t length = character_length(json, at);
    const std::string_view character(&json[at], length);
    const bool is_escaped = character != "\n" && is_obeyed(character);
    if (is_escaped || begins_command(json, at)) {
      safe += fmt::format("\\u{:04x}", code_point(character));
    } else {
      safe += character;
    }
    at += length;
  }
  return safe;
}

std::string render_json(const RunRecord& run) {
  Json document = {{"schema", kSchemaName}, {"version", kSchemaVersion}};
  document.update(to_json(without_secrets(run)));
  return without_commands(document.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace lockstep
