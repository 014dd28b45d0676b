#include "reports/page/html_table.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "reports/base/plain_text.h"
#include "reports/page/html_page.h"
#include "reports/page/html_text.h"

namespace lockstep {

namespace {

constexpr std::array<std::string_view, 4> kPlotted{"", "line", "edge", "limit"};
constexpr std::array<std::string_view, 3> kAxes{"linear", "log", "range"};

/// Markup without its elements, for an attribute.
std::string text_of(const std::string& markup) {
  std::string text;
  bool is_tag = false;
  for (const char c : markup) {
    if (c == '<') is_tag = true;
    if (!is_tag) text += c;
    if (c == '>') is_tag = false;
  }
  return text;
}

std::string heading_cell(const HtmlColumn& column) {
  const std::string_view plotted = kPlotted.at(static_cast<std::size_t>(column.plotted));
  return fmt::format("<th scope=\"col\"{}{}>{}</th>", column.is_number ? " class=\"n\"" : "",
                     plotted.empty() ? "" : fmt::format(" data-plot=\"{}\"", plotted),
                     column.heading);
}

}  // namespace

HtmlTable::HtmlTable(std::string caption, std::vector<HtmlColumn> columns)
    : caption_(std::move(caption)), columns_(std::move(columns)) {}

/// End tags are left out where HTML allows it: large tables are a third smaller.
void HtmlTable::add(const std::vector<std::string>& cells) {
  ++rows_;
  body_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_number = columns_.at(i).is_number;
    body_ += i == 0 ? "<th scope=\"row\"" : "<td";
    if (i == 0 && is_number) body_ += " class=\"n\"";
    body_ += ">" + cells[i];
  }
  body_ += "\n";
}

std::string HtmlTable::table() const {
  if (rows_ == 0) return fmt::format("<p>{}: none.</p>\n", caption_);
  std::string heads, classes;
  for (const HtmlColumn& column : columns_) heads += heading_cell(column);
  bool is_all_numbers = columns_.size() > 1;
  for (std::size_t i = 1; i < columns_.size(); ++i) {
    if (columns_[i].is_number) classes += fmt::format(" n{}", i);
    is_all_numbers = is_all_numbers && columns_[i].is_number;
  }
  return fmt::format(
      "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{}\"><table{}>"
      "<caption>{}</caption><thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
      text_of(caption_),
      is_all_numbers    ? " class=\"numbers\""
      : classes.empty() ? ""
                        : fmt::format(" class=\"{}\"", classes.substr(1)),
      caption_, heads, body_);
}

std::string HtmlTable::text() const { return table(); }

std::string HtmlTable::with_filter() const {
  if (rows_ == 0) return table();
  return fmt::format("<div class=\"filtered\" data-filter>{}</div>\n", table());
}

std::string HtmlTable::with_chart(ChartAxis axis, const std::string& unit) const {
  if (rows_ == 0) return table();
  return fmt::format(
      "<figure class=\"chart\" data-axis=\"{}\" data-unit=\"{}\">\n<figcaption>{}</figcaption>\n"
      "{}</figure>\n",
      kAxes.at(static_cast<std::size_t>(axis)), in_html(unit), caption_,
      html_details(fmt::format("The numbers: {}", counted(rows_, "row")), table()));
}

}  // namespace lockstep
