#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// How a chart shows a column of its table.
///   none     not at all: words
///   line     a line, by the numbers in it
///   edge     a fainter line: the smallest or largest of all ranks
///   limit    a dashed line: a tolerance
enum class Plotted { none, line, edge, limit };

struct HtmlColumn {
  std::string heading;  ///< markup
  bool is_number = false;
  Plotted plotted = Plotted::none;
};

/// The axis of the values in a chart.
///   linear    from the smallest value
///   log       zero has a place of its own, below all others
///   by_range  log if positive values span more than a factor of 1000
enum class ChartAxis { linear, log, by_range };

/// A table that scrolls inside its place. Cells are markup; the first column is the heading of its
/// row.
class HtmlTable {
 public:
  /// `caption`: markup.
  HtmlTable(std::string caption, std::vector<HtmlColumn> columns);

  /// Requires: as many cells as columns.
  void add(const std::vector<std::string>& cells);

  std::size_t rows() const { return rows_; }

  std::string text() const;

  /// With a field above it that filters its rows, once there is a script.
  std::string with_filter() const;

  /// A chart of the table, its first column being steps, with the table below it. A number may
  /// begin with "~" (an estimate); "-" is a gap.
  std::string with_chart(ChartAxis axis, const std::string& unit) const;

 private:
  std::string table() const;

  std::string caption_;
  std::vector<HtmlColumn> columns_;
  std::string body_;
  std::size_t rows_ = 0;
};

}  // namespace lockstep
