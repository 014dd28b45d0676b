#include "reports/formats/drift_chart.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "reports/formats/table_cells.h"

namespace lockstep {

namespace {

constexpr std::size_t kFewestPoints = 3;
constexpr std::size_t kMostPoints = 24;  ///< whose labels do not overlap
constexpr std::size_t kMostCharts = 2;
constexpr std::size_t kMostOfALabel = 60;

/// Spans of more than this are drawn by their logarithm.
constexpr double kWide = 1000;

struct ChartPoint {
  std::string step;
  double value = 0;
};

/// Whether the values of the group were not stored in some steps.
bool is_estimated(const Table& table, std::size_t group) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const Table::Row& row) {
    return entry_of(row, group).estimate.has_value();
  });
}

/// An estimate is an L2 norm, which only equal ranks have in common with the largest difference.
std::optional<double> value_of(const Table::Entry& entry, bool is_estimated) {
  if (is_estimated && entry.estimate) return entry.estimate;
  if (entry.values.empty() || (is_estimated && entry.values[0] != 0)) return {};
  return entry.values[0];
}

/// The measured values of a group, and of many only some, the last one among them.
std::vector<ChartPoint> points_of(const Table& table, std::size_t group) {
  std::vector<ChartPoint> all;
  const bool has_estimates = is_estimated(table, group);
  for (const Table::Row& row : table.rows) {
    const auto value = value_of(entry_of(row, group), has_estimates);
    if (value && std::isfinite(*value)) all.push_back({step_text(table, row), std::abs(*value)});
  }
  if (all.size() <= kMostPoints) return all;
  std::vector<ChartPoint> some;
  for (std::size_t i = 0; i < kMostPoints; ++i) {
    some.push_back(all[i * (all.size() - 1) / (kMostPoints - 1)]);
  }
  return some;
}

/// Text in quotes: mermaid has no escapes, and obeys some characters even there.
std::string label_text(const std::string& text) {
  std::string label = text.substr(0, kMostOfALabel);
  for (char& c : label) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == ',' || c == '-' || c == '_';
    if (!is_plain) c = ' ';
  }
  return label;
}

struct Scale {
  std::string label;
  bool is_logarithm = false;
  double unit = 1;
  int low = 0;
  int high = 0;
};

/// Mermaid reads no exponents, so the axis has the power of ten.
Scale scale_of(const std::vector<ChartPoint>& points) {
  const auto is_less = [](const ChartPoint& a, const ChartPoint& b) { return a.value < b.value; };
  const double least = std::min_element(points.begin(), points.end(), is_less)->value;
  const double most = std::max_element(points.begin(), points.end(), is_less)->value;
  if (least > 0 && most / least > kWide) {
    return {"log10 of the drift", true, 1, static_cast<int>(std::floor(std::log10(least))),
            static_cast<int>(std::floor(std::log10(most))) + 1};
  }
  const int exponent = static_cast<int>(std::floor(std::log10(most)));
  const std::string label =
      exponent == 0 ? "drift" : fmt::format("drift, in units of 1e{}", exponent);
  return {label, false, std::pow(10.0, exponent), 0,
          static_cast<int>(std::ceil(most / std::pow(10.0, exponent)))};
}

std::string chart_of(const std::vector<ChartPoint>& points, const std::string& title) {
  const Scale scale = scale_of(points);
  std::vector<std::string> steps;
  std::vector<std::string> values;
  for (const ChartPoint& point : points) {
    steps.push_back(label_text(point.step));
    const double value = scale.is_logarithm ? std::log10(point.value) : point.value / scale.unit;
    values.push_back(fmt::format("{:.3f}", value));
  }
  return fmt::format(
      "```mermaid\nxychart-beta\n  title \"{}\"\n"
      "  x-axis \"step\" [{}]\n  y-axis \"{}\" {} --> {}\n  line [{}]\n```\n\n",
      title, fmt::join(steps, ", "), scale.label, scale.low, scale.high, fmt::join(values, ", "));
}

/// Smaller numbers have no power of ten to be divided by.
bool is_drawable(const std::vector<ChartPoint>& points) {
  constexpr double kLeast = 1e-300;
  return points.size() >= kFewestPoints &&
         std::any_of(points.begin(), points.end(),
                     [](const ChartPoint& point) { return point.value > kLeast; });
}

}  // namespace

std::string drift_charts(const Table& table) {
  if (table.spec.quantity != Quantity::drift) return "";
  std::string charts;
  std::size_t drawn = 0;
  for (std::size_t i = 0; i < table.spec.groups.size() && drawn < kMostCharts; ++i) {
    const std::vector<ChartPoint> points = points_of(table, i);
    if (!is_drawable(points)) continue;
    const std::string& heading = table.spec.groups[i].heading;
    charts +=
        chart_of(points, fmt::format("{} between ranks{}{}",
                                     is_estimated(table, i) ? "Norm of the difference, estimated,"
                                                            : "Largest difference",
                                     heading.empty() ? "" : ", ", label_text(heading)));
    ++drawn;
  }
  return charts;
}

}  // namespace lockstep
