#include "reports/formats/table_sparklines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "reports/base/plain_text.h"
#include "reports/formats/sparkline.h"
#include "reports/formats/table_cells.h"

namespace lockstep {

namespace {

/// More blocks add no information.
constexpr std::size_t kMostBlocks = 60;
/// For the numbers after the blocks.
constexpr std::size_t kRoomForNumbers = 24;

constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct Series {
  std::string name;
  std::vector<double> values;
  Baseline baseline = Baseline::zero;
};

template <class ValueOf>
std::vector<double> values_of(const Table& table, std::size_t group, ValueOf value_of) {
  std::vector<double> values;
  for (const Table::Row& row : table.rows) values.push_back(value_of(entry_of(row, group)));
  return values;
}

/// The largest value of all ranks, else its estimate. Other drifts are smaller, and other norms
/// hardly differ.
double largest(const Table::Entry& entry) {
  double most = entry.estimate.value_or(kNotMeasured);
  for (const double value : entry.values) {
    if (!std::isnan(value) && !(value <= most)) most = value;
  }
  return most;
}

std::vector<Series> series_of(const Table& table, std::size_t group) {
  const std::string heading = plain(table.spec.groups[group].heading);
  switch (table.spec.quantity) {
    case Quantity::element:
      return {};
    case Quantity::drift:
    case Quantity::distance:
      return {
          {heading.empty() ? "drift" : heading, values_of(table, group, largest), Baseline::zero}};
    case Quantity::norm:
      break;
  }
  const auto drift = [](const Table::Entry& entry) { return entry.drift.value_or(kNotMeasured); };
  const std::string name = heading.empty() ? "" : heading.substr(0, heading.find(' ')) + " ";
  std::vector<Series> series{{name + "norm", values_of(table, group, largest), Baseline::smallest}};
  if (has_drift(table))
    series.push_back({name + "drift", values_of(table, group, drift), Baseline::zero});
  return series;
}

/// "up to 0.133", "29.2 to 30.7", "0".
std::string range_of(const Series& series) {
  double low = kNotMeasured;
  double high = kNotMeasured;
  for (const double value : series.values) {
    if (std::isnan(value)) continue;
    if (!(value >= low)) low = value;
    if (!(value <= high)) high = value;
  }
  if (std::isnan(high)) return "not measured";
  if (low == high) return fmt::format("{:.4g}", high);
  return series.baseline == Baseline::zero ? fmt::format("up to {:.4g}", high)
                                           : fmt::format("{:.4g} to {:.4g}", low, high);
}

}  // namespace

std::string table_sparklines(const Table& table, std::size_t width) {
  std::vector<Series> all;
  for (std::size_t group = 0; group < table.spec.groups.size(); ++group) {
    for (Series& series : series_of(table, group)) all.push_back(std::move(series));
  }
  std::size_t names = 0;
  for (const Series& series : all) names = std::max(names, series.name.size());
  names = std::min(names, width / 4);
  const std::size_t taken = std::min(width, names + kRoomForNumbers);
  const std::size_t blocks = std::clamp<std::size_t>(width - taken, 2, kMostBlocks);
  std::string text;
  for (const Series& series : all) {
    text += fmt::format("{:<{}} {} {}\n", series.name.substr(0, names), names,
                        sparkline(series.values, blocks, series.baseline), range_of(series));
  }
  return text;
}

}  // namespace lockstep
