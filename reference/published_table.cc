#include "reference/published_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <system_error>

#include "reports/base/csv_text.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/installed_path.h"
#include "reports/record/claim.h"

namespace lockstep {

namespace {

enum Column : std::size_t {
  kScenario,
  kVariant,
  kWorldSize,
  kQuantity,
  kKind,
  kPhase,
  kTensor,
  kElement,
  kStep,
  kStepBase,
  kRank,
  kPrinted,
  kDefinition,
  kSource
};

const std::vector<std::string_view> kColumns{
    "scenario", "variant", "world_size", "quantity", "kind",    "phase",      "tensor",
    "element",  "step",    "step_base",  "rank",     "printed", "definition", "source"};

/// Format of a printed number: "0.04043" has 5 decimals, "1.769e-04" 3 and an exponent.
struct NumberForm {
  int decimals = 0;
  bool has_exponent = false;
};

/// All of `text` as a number; empty if it is none.
std::optional<double> to_number(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<NumberForm> form_of(std::string_view printed) {
  const auto value = to_number(printed);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  const std::size_t exponent = std::min(printed.find_first_of("eE"), printed.size());
  const std::size_t dot = printed.substr(0, exponent).find('.');
  const auto decimals = dot == std::string_view::npos ? 0 : exponent - dot - 1;
  return NumberForm{static_cast<int>(decimals), exponent < printed.size()};
}

/// In Python's format: "-0.00000" keeps its sign, an exponent has at least two digits.
std::string print(double value, const NumberForm& form) {
  return form.has_exponent ? fmt::format("{:.{}e}", value, form.decimals)
                           : fmt::format("{:.{}f}", value, form.decimals);
}

/// The limit in a definition "abs(...) < LIMIT", which may continue in words after a space.
std::optional<double> limit_of(std::string_view definition) {
  constexpr std::string_view kBefore = ") < ";
  const std::size_t mark = definition.find(kBefore);
  if (!definition.starts_with("abs(") || mark == std::string_view::npos) return std::nullopt;
  const std::string_view rest = definition.substr(mark + kBefore.size());
  const auto limit = to_number(rest.substr(0, rest.find(' ')));
  return limit && *limit > 0 ? limit : std::nullopt;
}

/// Reads the cells of one row; errors name the position.
class RowReader {
 public:
  RowReader(const CsvRow& row, const std::filesystem::path& path) : row_(row), path_(path) {}

  std::string text(Column column) const {
    if (row_.cells[column].empty()) throw wrong(column, "a text");
    return unescape_cell(row_.cells[column]);
  }

  std::int64_t integer(Column column, std::int64_t least, std::int64_t most) const {
    const std::int64_t value = to_int(row_, column, path_, kColumns);
    if (value < least || value > most) {
      throw wrong(column, fmt::format("a whole number from {} to {}", least, most));
    }
    return value;
  }

  template <class Enum>
  Enum word(Column column) const {
    const auto value = parse<Enum>(row_.cells[column]);
    if (!value) throw wrong(column, fmt::format("one of {}", fmt::join(Names<Enum>::values, ", ")));
    return *value;
  }

  Error wrong(Column column, std::string_view expected) const {
    return malformed(path_.string(), row_.line, static_cast<std::int64_t>(column) + 1,
                     fmt::format("{} for {}", expected, kColumns[column]), row_.cells[column]);
  }

 private:
  const CsvRow& row_;
  const std::filesystem::path& path_;
};

void check_printed(const RowReader& row, const PublishedValue& value) {
  if (value.quantity != PublishedQuantity::synced) {
    if (!form_of(value.printed)) throw row.wrong(kPrinted, "a finite number");
    return;
  }
  if (value.printed != "True" && value.printed != "False") {
    throw row.wrong(kPrinted, "True or False");
  }
  if (value.is_met_in_shape()) return;
  if (!limit_of(value.definition)) throw row.wrong(kDefinition, "abs(...) < a positive number");
}

PublishedValue to_value(const CsvRow& cells, const std::filesystem::path& path) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const RowReader row(cells, path);
  PublishedValue value;
  value.line = cells.line;
  value.scenario = row.text(kScenario);
  value.variant = row.text(kVariant);
  value.world_size = static_cast<int>(row.integer(kWorldSize, 1, kMost));
  value.quantity = row.word<PublishedQuantity>(kQuantity);
  value.kind = name(row.word<Kind>(kKind));
  value.phase = name(row.word<Phase>(kPhase));
  value.tensor = row.text(kTensor);
  value.element = row.integer(kElement, 0, kMost);
  value.step_base = row.integer(kStepBase, 0, 1);
  value.step = row.integer(kStep, value.step_base, kMost);
  const bool is_of_one_rank =
      value.quantity == PublishedQuantity::element || value.quantity == PublishedQuantity::norm;
  value.rank = static_cast<int>(is_of_one_rank ? row.integer(kRank, 0, value.world_size - 1)
                                               : row.integer(kRank, -1, -1));
  value.printed = row.text(kPrinted);
  value.definition = row.text(kDefinition);
  value.source = row.text(kSource);
  check_printed(row, value);
  return value;
}

/// Whether the published definition holds: the ranks' values differ by less than its limit. False
/// for a NaN.
bool is_synced_as_published(const PublishedValue& published, const std::vector<double>& values) {
  if (std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); }))
    return false;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most - *least < limit_of(published.definition).value();
}

/// The measured value in the format of the published one; empty if it was not measured.
std::string print_measured(const PublishedValue& published, const Measured& measured) {
  const auto index = static_cast<std::size_t>(std::max(published.rank, 0));
  if (index >= measured.values.size()) return "";
  if (published.quantity != PublishedQuantity::synced) {
    return print(measured.values[index], form_of(published.printed).value());
  }
  const bool is_synced = published.is_met_in_shape()
                             ? measured.bitwise_synced
                             : is_synced_as_published(published, measured.values);
  return is_synced ? "True" : "False";
}

/// Whether two values belong to one column, or to the columns of two ranks.
bool is_of_same_columns(const PublishedValue& a, const PublishedValue& b) {
  return a.quantity == b.quantity && a.scenario == b.scenario && a.variant == b.variant &&
         a.world_size == b.world_size && a.kind == b.kind && a.phase == b.phase &&
         a.tensor == b.tensor && a.element == b.element;
}

/// The value with which the shape of `value` is compared. For a drift it is one step earlier, for a
/// norm that of rank 0, for an element that of the first step. Null if the table lacks it.
const PublishedValue* neighbour(const PublishedTable& table, const PublishedValue& value) {
  const auto find = [&](const auto& is_neighbour) {
    const auto found =
        std::find_if(table.values.begin(), table.values.end(), [&](const PublishedValue& other) {
          return is_of_same_columns(other, value) && is_neighbour(other);
        });
    return found == table.values.end() ? nullptr : &*found;
  };
  switch (value.quantity) {
    case PublishedQuantity::drift:
      return find([&](const PublishedValue& other) { return other.step == value.step - 1; });
    case PublishedQuantity::element: {
      std::int64_t first = value.step;
      for (const PublishedValue& other : table.values) {
        if (is_of_same_columns(other, value)) first = std::min(first, other.step);
      }
      return find([&](const PublishedValue& other) {
        return other.step == first && other.rank == value.rank;
      });
    }
    default:
      return find(
          [&](const PublishedValue& other) { return other.step == value.step && other.rank == 0; });
  }
}

/// Sign of the difference from the neighbour: -1, 0 or 1.
int standing(double value, double neighbour) { return (value > neighbour) - (value < neighbour); }

using NumberOf = std::function<double(const PublishedValue& value)>;

/// The mean of an element over the `kWindow` steps that end with `last`; NaN if the table lacks one
/// of them.
constexpr std::int64_t kWindow = 5;
double mean_until(const PublishedTable& table, const PublishedValue& published, std::int64_t last,
                  const NumberOf& number_of) {
  std::int64_t found = 0;
  double sum = 0;
  for (const PublishedValue& other : table.values) {
    const bool is_in_window = other.step > last - kWindow && other.step <= last;
    if (!is_in_window || other.rank != published.rank || !is_of_same_columns(other, published)) {
      continue;
    }
    ++found;
    sum += number_of(other);
  }
  return found == kWindow ? sum / kWindow : std::numeric_limits<double>::quiet_NaN();
}

/// Whether an element moves in the published direction: the mean of five steps compared with that
/// of the five before. With fewer steps there is no direction.
bool is_course_met(const PublishedTable& table, const PublishedValue& published,
                   const NumberOf& measured) {
  const auto course = [&](const NumberOf& number_of) -> std::optional<int> {
    const double now = mean_until(table, published, published.step, number_of);
    const double before = mean_until(table, published, published.step - kWindow, number_of);
    if (!std::isfinite(now) || !std::isfinite(before)) return std::nullopt;
    return standing(now, before);
  };
  const std::optional<int> wanted =
      course([](const PublishedValue& value) { return to_number(value.printed).value(); });
  return !wanted || wanted == course(measured);
}

/// Whether a number matches in shape. Non-finite numbers have no shape.
bool is_shape_met(const PublishedTable& table, const PublishedValue& published,
                  const MeasuredSource& measured) {
  const auto value_of = [&](const PublishedValue& value) {
    const std::optional<Measured> found = measured(value);
    const auto index = static_cast<std::size_t>(std::max(value.rank, 0));
    return found && index < found->values.size() ? found->values[index]
                                                 : std::numeric_limits<double>::quiet_NaN();
  };
  const bool is_element = published.quantity == PublishedQuantity::element;
  if (is_element && !is_course_met(table, published, value_of)) return false;
  const double printed = to_number(published.printed).value();
  const double value = value_of(published);
  if (!std::isfinite(value) || (value == 0) != (printed == 0)) return false;
  const PublishedValue* const other = neighbour(table, published);
  if (!other) return true;
  const double beside = value_of(*other);
  if (!std::isfinite(beside)) return false;
  const int wanted = standing(printed, to_number(other->printed).value());
  const int found = standing(value, beside);
  return published.quantity == PublishedQuantity::norm ? (found == 0) == (wanted == 0)
                                                       : found == wanted;
}

bool is_met(const PublishedTable& table, const PublishedValue& published,
            const std::string& printed, const MeasuredSource& measured) {
  const bool is_number = published.quantity != PublishedQuantity::synced;
  return published.is_met_in_shape() && is_number ? is_shape_met(table, published, measured)
                                                  : printed == published.printed;
}

void compare_value(const PublishedTable& table, const PublishedValue& published,
                   const MeasuredSource& measured, TableComparison& comparison) {
  const std::optional<Measured> values = measured(published);
  const std::string printed = values ? print_measured(published, *values) : "";
  if (published.is_beside() && !printed.empty()) {
    ++comparison.beside;
    return;
  }
  ++comparison.values;
  if (is_met(table, published, printed, measured)) {
    ++comparison.met;
    comparison.in_shape += published.is_met_in_shape() ? 1 : 0;
  } else {
    comparison.unmet.push_back({published, printed.empty() ? kNotMeasured : printed});
  }
  if (published.quantity == PublishedQuantity::synced && !printed.empty() &&
      (printed == "True") != values->bitwise_synced) {
    ++comparison.definitions_differ;
  }
}

/// In this program's installation prefix, otherwise in the source folder of the build.
std::filesystem::path table_folder() {
  return installed_path("share/lockstep/published", LOCKSTEP_PUBLISHED_FOLDER);
}

}  // namespace

PublishedTable read_published_table(const std::filesystem::path& path) {
  PublishedTable table{path.stem().string(), path, {}};
  const CsvKind kind{kColumns, TornTail::is_an_error, kLargestPublishedTable};
  read_csv(path, kind, [&](const CsvRow& row) { table.values.push_back(to_value(row, path)); });
  if (table.values.empty()) throw malformed(path.string(), 2, 1, "a published value", "no row");
  return table;
}

std::vector<std::string> published_table_names() {
  std::error_code failure;
  const std::filesystem::path folder = table_folder();
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    if (entry.path().extension() == ".csv") names.push_back(entry.path().stem().string());
  }
  if (failure) throw unreadable(folder.string(), failure.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::filesystem::path published_table_file(const std::string& id) {
  const std::vector<std::string> known = published_table_names();
  if (std::find(known.begin(), known.end(), id) == known.end()) {
    throw unknown_name("published table", id, known);
  }
  return table_folder() / (id + ".csv");
}

TableComparison compare(const PublishedTable& table, const MeasuredSource& measured) {
  TableComparison comparison;
  for (const PublishedValue& published : table.values) {
    compare_value(table, published, measured, comparison);
  }
  return comparison;
}

}  // namespace lockstep
