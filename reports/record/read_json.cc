#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/names.h"
#include "reports/record/json.h"
#include "reports/record/record_fields.h"

namespace lockstep {

namespace {

/// Sorted: an object that keeps the order of its members looks each of them up among all others.
using SortedJson = nlohmann::json;

std::string json_in_words(const SortedJson& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return value.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
}

/// A value and its position in the file, for errors: "record.json: cells[0].exits[1].code".
class Node {
 public:
  Node(const SortedJson& json, const std::string& file, std::string where = "")
      : value(json), path_(file), place_(std::move(where)) {}

  const SortedJson& value;

  Error error(std::string_view expected) const {
    return wrong(place_, expected, json_in_words(value));
  }

  Node at(std::string_view field) const {
    if (!value.is_object()) throw error("an object");
    const auto found = value.find(std::string(field));
    const std::string inside = fmt::format("{}{}{}", place_, place_.empty() ? "" : ".", field);
    if (found == value.end()) throw wrong(inside, "a value", "");
    return {*found, path_, inside};
  }

  Node at(std::size_t index) const {
    return {value[index], path_, fmt::format("{}[{}]", place_, index)};
  }

  bool is_in(std::string_view part) const { return place_.find(part) != place_.npos; }

 private:
  Error wrong(const std::string& where, std::string_view expected, std::string_view found) const {
    return malformed(where.empty() ? path_ : path_ + ": " + where, 0, 0, expected, found);
  }

  const std::string& path_;
  std::string place_;  ///< empty for the whole document
};

template <class Integer>
requires std::is_integral_v<Integer>
void read(const Node& node, Integer& integer) {
  using Limits = std::numeric_limits<Integer>;
  if (!node.value.is_number_integer()) throw node.error("an integer");
  const bool fits = node.value.is_number_unsigned()
                        ? std::in_range<Integer>(node.value.get<std::uint64_t>())
                        : std::in_range<Integer>(node.value.get<std::int64_t>());
  if (!fits) {
    throw node.error(fmt::format("an integer from {} to {}", Limits::min(), Limits::max()));
  }
  integer = node.value.get<Integer>();
}

void read(const Node& node, bool& truth) {
  if (!node.value.is_boolean()) throw node.error("true or false");
  truth = node.value.get<bool>();
}

void read(const Node& node, double& number) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (node.value.is_number()) {
    number = node.value.get<double>();
  } else if (node.value == "NaN") {
    number = std::numeric_limits<double>::quiet_NaN();
  } else if (node.value == "Infinity" || node.value == "-Infinity") {
    number = node.value == "Infinity" ? kInfinity : -kInfinity;
  } else {
    throw node.error("a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
  }
}

void read(const Node& node, std::string& text) {
  if (!node.value.is_string()) throw node.error("a string");
  text = node.value.get<std::string>();
}

template <class Enum>
requires std::is_enum_v<Enum>
void read(const Node& node, Enum& value) {
  const auto found =
      node.value.is_string() ? parse<Enum>(node.value.get<std::string>()) : std::nullopt;
  if (!found) {
    throw node.error(fmt::format("one of \"{}\"", fmt::join(Names<Enum>::values, "\", \"")));
  }
  value = *found;
}

template <HasFields T>
void read(const Node& node, T& value);
template <class T>
void read(const Node& node, std::optional<T>& value);
template <class T>
void read(const Node& node, std::vector<T>& values);
void read(const Node& node, std::vector<JobRecord>& jobs);

void read(const Node& node, std::vector<std::pair<std::string, std::string>>& variables) {
  if (!node.value.is_object()) throw node.error("an object");
  for (const auto& item : node.value.items()) {
    read(node.at(item.key()), variables.emplace_back(item.key(), "").second);
  }
}

template <class T>
void read(const Node& node, std::vector<T>& values) {
  if (!node.value.is_array()) throw node.error("an array");
  for (std::size_t i = 0; i < node.value.size(); ++i) read(node.at(i), values.emplace_back());
}

/// The earlier attempts of one would have attempts, and so on, as deep as a record is long.
void read(const Node& node, std::vector<JobRecord>& jobs) {
  if (!node.value.is_array()) throw node.error("an array");
  if (!node.value.empty() && node.is_in("earlier_attempts[")) throw node.error("an empty array");
  for (std::size_t i = 0; i < node.value.size(); ++i) read(node.at(i), jobs.emplace_back());
}

template <class T, std::size_t size>
void read(const Node& node, std::array<T, size>& values) {
  if (!node.value.is_array() || node.value.size() != size) {
    throw node.error(fmt::format("an array of {}", size));
  }
  for (std::size_t i = 0; i < size; ++i) read(node.at(i), values.at(i));
}

template <class T>
void read(const Node& node, std::optional<T>& value) {
  if (!node.value.is_null()) read(node, value.emplace());
}

template <HasFields T>
void read(const Node& node, T& value) {
  for_each_field<T>([&](const auto& field) { read(node.at(field.name), value.*field.member); });
}

/// Line and column of a byte in a text, both from 1.
std::pair<std::int64_t, std::int64_t> line_and_column(const std::string& text, std::size_t byte) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
  const auto line = std::count(text.begin(), end, '\n') + 1;
  const std::size_t before = std::string(text.begin(), end).rfind('\n');
  const std::size_t start = before == std::string::npos ? 0 : before + 1;
  return {line, static_cast<std::int64_t>(std::min(byte, text.size()) - start + 1)};
}

/// The parser's message after its own position: "unexpected end of input; ...".
std::string reason(const SortedJson::parse_error& error) {
  const std::string text = error.what();
  const std::size_t mark = text.rfind(" - ");
  return mark == std::string::npos ? text : text.substr(mark + 3);
}

/// Finds the end of the first number that overflows a double, because the parser does not report
/// its position.
class OverflowFinder : public nlohmann::json_sax<SortedJson> {
 public:
  std::size_t byte() const { return byte_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(SortedJson::number_integer_t) override { return true; }
  bool number_unsigned(SortedJson::number_unsigned_t) override { return true; }
  bool number_float(SortedJson::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(SortedJson::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t byte, const std::string&, const SortedJson::exception&) override {
    byte_ = byte;
    return false;
  }

 private:
  std::size_t byte_ = 0;
};

/// The number in the parser's message "number overflow parsing '1e999'".
std::string number_of(const SortedJson::out_of_range& error) {
  const std::string text = error.what();
  const std::size_t begin = text.find('\'');
  return begin == std::string::npos ? text : text.substr(begin + 1, text.rfind('\'') - begin - 1);
}

SortedJson parse_document(const std::string& text, const std::string& path) {
  try {
    return SortedJson::parse(text);
  } catch (const SortedJson::parse_error& error) {
    const std::size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    const auto [line, column] = line_and_column(text, byte);
    throw malformed(path, line, column, "JSON", reason(error));
  } catch (const SortedJson::out_of_range& error) {
    OverflowFinder finder;
    SortedJson::sax_parse(text, &finder);
    const std::string number = number_of(error);
    const std::size_t end = std::max(finder.byte(), number.size());
    const auto [line, column] = line_and_column(text, end - number.size());
    throw malformed(path, line, column, "a number that a float64 holds", number);
  }
}

/// Before anything else is read: what another version means is unknown.
void require_version(const Node& root, const std::string& path) {
  const Node schema = root.at("schema");
  if (schema.value != kSchemaName) throw schema.error(fmt::format("\"{}\"", kSchemaName));
  const auto version = root.value.find("version");
  const SortedJson found = version == root.value.end() ? SortedJson("") : *version;
  if (found == kSchemaVersion) return;
  throw other_version(path, "a record",
                      found.is_string() ? found.get<std::string>() : json_in_words(found),
                      kSchemaVersion);
}

}  // namespace

RunRecord read_json(const std::string& text, const std::string& path) {
  const SortedJson document = parse_document(text, path);
  const Node root(document, path);
  require_version(root, path);
  RunRecord run;
  read(root, run);
  return run;
}

}  // namespace lockstep
