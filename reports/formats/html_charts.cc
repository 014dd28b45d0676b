#include "reports/formats/html_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reports/formats/table_cells.h"
#include "reports/page/html_page.h"
#include "reports/page/html_table.h"
#include "reports/page/html_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostColumns = 64;  ///< ranks of a table

bool is_any_number(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return !std::isnan(value); });
}

std::string thinned_in_words(const StepSeries& series) {
  std::string text;
  if (series.observed > static_cast<std::int64_t>(series.steps.size())) {
    text = fmt::format(
        "Of {} observed steps, {} are shown: the first, the last, every change of agreement, and "
        "the extremes of each interval.",
        series.observed, series.steps.size());
  }
  if (series.merged_changes > 0) {
    text += fmt::format(
        " Agreement changed {} times; of each interval the first and the last "
        "change are shown.",
        series.merged_changes);
  }
  if (series.ranks_left_out > 0) {
    text += fmt::format(
        " {} ranks have no line of their own; the smallest and the largest value are those of all "
        "ranks, and the ranks furthest from the others are shown.",
        series.ranks_left_out);
  }
  return text.empty() ? "" : fmt::format("<p class=\"soft\">{}</p>\n", text);
}

std::string norm_chart(const StepSeries& series) {
  const bool has_norms =
      std::any_of(series.norms.begin(), series.norms.end(),
                  [](const RankSeries& one) { return is_any_number(one.values); });
  if (!has_norms) return "";
  std::vector<HtmlColumn> columns{{"Step", true}, {"Tensors that differ", true}};
  for (const RankSeries& one : series.norms) {
    columns.push_back({ranks_in_short(one.ranks, 3), true, Plotted::line});
  }
  const bool has_edges = series.ranks_left_out > 0;
  if (has_edges) {
    columns.push_back({"smallest", true, Plotted::edge});
    columns.push_back({"largest", true, Plotted::edge});
  }
  HtmlTable table("Gradient norm, by rank and step", columns);
  for (std::size_t i = 0; i < series.steps.size(); ++i) {
    std::vector<std::string> cells{std::to_string(series.steps[i]),
                                   std::to_string(series.differing[i])};
    for (const RankSeries& one : series.norms) cells.push_back(number_in_html(one.values[i]));
    if (has_edges) {
      cells.push_back(number_in_html(series.smallest_norms[i]));
      cells.push_back(number_in_html(series.largest_norms[i]));
    }
    table.add(cells);
  }
  return table.with_chart(ChartAxis::by_range, "L2 norm of all gradients");
}

std::string drift_chart(const StepSeries& series) {
  if (!is_any_number(series.drift) && !is_any_number(series.estimated_drift)) return "";
  const bool has_estimates = is_any_number(series.estimated_drift);
  std::vector<HtmlColumn> columns{{"Step", true}, {"largest difference", true, Plotted::line}};
  if (has_estimates) columns.push_back({"L2 norm, estimated", true, Plotted::line});
  HtmlTable table("Drift of the parameters between ranks, by step", columns);
  for (std::size_t i = 0; i < series.steps.size(); ++i) {
    std::vector<std::string> cells{std::to_string(series.steps[i]),
                                   number_in_html(series.drift[i])};
    if (has_estimates) {
      const double estimate = series.estimated_drift[i];
      cells.push_back((std::isnan(estimate) ? "" : "~") + number_in_html(estimate));
    }
    table.add(cells);
  }
  return table.with_chart(ChartAxis::log, "largest |difference|");
}

/// A line of steps: green where ranks agree, red where they differ. Each part is wide enough to be
/// seen.
std::string strip(const AgreementMap& map, const TensorCourse& tensor) {
  const auto all = static_cast<double>(map.last_step - map.first_step + 1);
  const double least = all / 160;
  std::string parts;
  for (const DifferingRun& run : tensor.runs) {
    const double width = std::max(static_cast<double>(run.last - run.first + 1), least);
    const double begin = std::min(static_cast<double>(run.first - map.first_step), all - width);
    const std::string steps = run.first == run.last
                                  ? fmt::format("step {}", run.first)
                                  : fmt::format("steps {} to {}", run.first, run.last);
    parts += fmt::format(
        "<rect class=\"{}\" x=\"{:.6g}\" width=\"{:.6g}\" height=\"1\"><title>{}: {}"
        "</title></rect>",
        run.is_missing ? "missing" : "differ", begin, width, steps,
        (run.is_partial ? "in some of them " : "") +
            std::string(run.is_missing ? "missing on some ranks" : "ranks differ"));
  }
  return fmt::format(
      "<svg viewBox=\"0 0 {0:.6g} 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect "
      "class=\"agree\" width=\"{0:.6g}\" height=\"1\"/>{1}</svg>",
      all, parts);
}

std::string groups_in_short(const std::vector<std::vector<int>>& groups) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(4, groups.size()); ++i) {
    text += (i == 0 ? "" : " | ") + ranks_in_short(groups[i], 4);
  }
  return groups.size() > 4 ? text + fmt::format(" | {} more values", groups.size() - 4) : text;
}

/// Whether ranks differ in a tensor. It need not be one of the map's: a buffer of a job is none.
bool differ_between_ranks(const Execution& execution) {
  return std::ranges::any_of(execution.results, [](const ClaimResult& result) {
    return is_about_agreement(result.claim) && !result.findings.empty();
  });
}

std::string agreement_map(const Execution& execution) {
  const AgreementMap& map = execution.charts->agreement;
  if (map.tensors == 0) return "";
  if (map.differing.empty()) {
    if (differ_between_ranks(execution)) return "";
    return fmt::format(
        "<p>Ranks agree on all {} compared tensors, in every step in which two or more observed "
        "them.</p>\n",
        map.tensors);
  }
  const auto differing = static_cast<std::int64_t>(map.differing.size()) + map.left_out;
  HtmlTable table("Agreement by tensor and step",
                  {{"Tensor"},
                   {fmt::format("Steps {} to {}", map.first_step, map.last_step)},
                   {"First", true},
                   {"Last", true},
                   {"Steps", true},
                   {"Ranks by value, at first"},
                   {"Kind"}});
  for (const TensorCourse& tensor : map.differing) {
    table.add({fmt::format("<code>{}</code>", in_html(tensor.name, 160)), strip(map, tensor),
               std::to_string(tensor.runs.empty() ? 0 : tensor.runs.front().first),
               std::to_string(tensor.last), std::to_string(tensor.steps),
               groups_in_short(tensor.groups),
               fmt::format("{}, {}", name(tensor.kind), name(tensor.phase))});
  }
  std::string text = fmt::format(
      "<div class=\"map\">{}<p><span class=\"key agree\" aria-hidden=\"true\">\u25a0</span> ranks "
      "agree <span class=\"key differ\" aria-hidden=\"true\">\u25a0</span> ranks differ <span "
      "class=\"key missing\" aria-hidden=\"true\">\u25a0</span> missing on some ranks. {} of {} "
      "compared tensors ever differ; ranks agree on the others.</p></div>\n",
      table.with_filter(), differing, map.tensors);
  if (map.left_out > 0) {
    text += fmt::format("<p class=\"soft\">{} more tensors that differ are not shown.</p>\n",
                        map.left_out);
  }
  return text;
}

std::string group_heading(const Table& table, std::size_t group) {
  const std::string& heading = table.spec.groups[group].heading;
  return heading.empty() ? "" : in_html(heading, 60) + " ";
}

std::string value_cell(const Table& table, const Table::Entry& entry, std::size_t i) {
  const bool is_estimate = i < entry.values.size() && std::isnan(entry.values[i]) && entry.estimate;
  return is_estimate ? fmt::format("~{:.1e}", *entry.estimate) : value_text(table.spec, entry, i);
}

struct ShownRanks {
  std::vector<std::size_t> shown;  ///< by group
  std::size_t left_out = 0;        ///< the most of a group that have no column
};

ShownRanks shown_ranks(const Table& table) {
  ShownRanks ranks;
  for (std::size_t group = 0; group < table.spec.groups.size(); ++group) {
    const std::size_t all = ranks_of(table, group);
    ranks.shown.push_back(std::min(all, kMostColumns));
    ranks.left_out = std::max(ranks.left_out, all - ranks.shown.back());
  }
  return ranks;
}

std::vector<HtmlColumn> columns_of(const Table& table, const ShownRanks& ranks) {
  const bool is_drift = table.spec.quantity == Quantity::drift;
  std::vector<HtmlColumn> columns{{"Step", true}};
  for (std::size_t group = 0; group < table.spec.groups.size(); ++group) {
    const std::string heading = group_heading(table, group);
    for (std::size_t rank = 0; rank < ranks.shown[group]; ++rank) {
      columns.push_back(
          {heading + (is_drift ? "drift" : fmt::format("rank {}", rank)), true, Plotted::line});
    }
    if (!is_drift) columns.push_back({heading + "synced", true});
    if (has_drift(table)) columns.push_back({heading + "drift", true});
  }
  return columns;
}

/// In the order of `columns_of`.
std::vector<std::string> cells_of(const Table& table, const Table::Row& row,
                                  const ShownRanks& ranks) {
  std::vector<std::string> cells{step_text(table, row)};
  for (std::size_t group = 0; group < table.spec.groups.size(); ++group) {
    const Table::Entry entry = entry_of(row, group);
    for (std::size_t rank = 0; rank < ranks.shown[group]; ++rank) {
      cells.push_back(value_cell(table, entry, rank));
    }
    if (table.spec.quantity != Quantity::drift) cells.push_back(synced_text(table.spec, entry));
    if (has_drift(table)) cells.push_back(entry.drift ? number_in_html(*entry.drift) : "-");
  }
  return cells;
}

}  // namespace

std::string html_charts(const Execution& execution) {
  if (!execution.charts) return "";
  const Charts& charts = *execution.charts;
  return side_by_side_charts(norm_chart(charts.series) + drift_chart(charts.series)) +
         thinned_in_words(charts.series) + agreement_map(execution);
}

std::string side_by_side_charts(const std::string& charts) {
  return charts.empty() ? "" : "<div class=\"charts\">\n" + charts + "</div>\n";
}

std::string html_chart_of(const Table& table) {
  const TableSpec& spec = table.spec;
  const ShownRanks ranks = shown_ranks(table);
  HtmlTable rows(in_html(spec.title), columns_of(table, ranks));
  for (const Table::Row& row : table.rows) rows.add(cells_of(table, row, ranks));
  const bool is_log = spec.quantity == Quantity::drift || spec.quantity == Quantity::distance;
  std::string text = rows.with_chart(is_log ? ChartAxis::log : ChartAxis::by_range, "");
  if (ranks.left_out > 0) {
    text += fmt::format("<p class=\"soft\">The first {} ranks are shown; {} are left out.</p>\n",
                        kMostColumns, ranks.left_out);
  }
  return text;
}

}  // namespace lockstep
