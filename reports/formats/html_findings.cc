#include "reports/formats/html_findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "reports/page/finding_pages.h"
#include "reports/page/html_page.h"
#include "reports/page/html_text.h"
#include "reports/record/finding_key.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostInFull = 200;
constexpr std::size_t kMostRows = 10000;
constexpr std::size_t kMostGroups = 16;
constexpr std::size_t kMostRanks = 12;
constexpr std::size_t kMostTensors = 12;
constexpr std::size_t kMostOfAName = 240;

std::string name_in_html(const std::string& name) {
  return name.empty() ? "" : fmt::format("<code>{}</code>", in_html(name, kMostOfAName));
}

std::string step_in_html(const Finding& finding) {
  return finding.step > 0 ? std::to_string(finding.step) : "before the first step";
}

/// A finding about a rank has no groups.
std::vector<std::vector<int>> ranks_in_groups(const Finding& finding) {
  if (finding.groups.empty() && finding.failure) return {{finding.failure->rank}};
  return finding.groups;
}

/// "{0,2,3}"
std::string set_of(const std::vector<int>& ranks) {
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(kMostRanks, ranks.size()));
  return fmt::format("{{{}{}}}", fmt::join(ranks.begin(), end, ","),
                     end == ranks.end() ? "" : fmt::format(" and {} more", ranks.end() - end));
}

std::string groups_in_html(const Finding& finding) {
  const std::vector<std::vector<int>> groups = ranks_in_groups(finding);
  std::string text = groups.size() > 1 ? fmt::format("{} groups: ", groups.size()) : "";
  for (std::size_t i = 0; i < std::min(kMostGroups, groups.size()); ++i) {
    text += fmt::format("{}<span class=\"value\">{}</span>", i == 0 ? "" : ", ", set_of(groups[i]));
  }
  if (groups.size() > kMostGroups) {
    text += fmt::format(" and {} more", groups.size() - kMostGroups);
  }
  return text;
}

std::string tensors_in_html(const Finding& finding) {
  const std::size_t all = finding.tensors.size();
  if (all < 2) return "";
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostTensors, all); ++i) {
    text += (i == 0 ? "" : ", ") + name_in_html(finding.tensors[i]);
  }
  if (all > kMostTensors) text += fmt::format(" and {} more", all - kMostTensors);
  return text;
}

std::string ratio_in_html(const Finding& finding) {
  std::string numbers;
  if (finding.ratio) numbers = fmt::format("{:.6g}", *finding.ratio);
  if (finding.cosine) {
    numbers += fmt::format("{}cosine {:.6g}", numbers.empty() ? "" : ", ", *finding.cosine);
  }
  const std::string origin = in_html(origin_in_words(finding));
  return origin.empty() || numbers.empty() ? origin + numbers
                                           : fmt::format("{} ({})", origin, numbers);
}

std::string difference_in_html(const Finding& finding) {
  std::string text;
  if (finding.elements > 0) {
    text = fmt::format("{} of {} elements, by up to {:.6g}", finding.differing_elements,
                       finding.elements, finding.worst_difference);
  }
  if (finding.relative_difference) {
    text +=
        fmt::format("{}relative {:.3g}", text.empty() ? "" : "; ", *finding.relative_difference);
    const double error = 100 * finding.estimate_error.value_or(0);
    if (error >= 0.5) text += fmt::format(" (±{:.0f} %)", error);
    if (finding.tolerance) text += fmt::format(", tolerance {:.2g}", *finding.tolerance);
  }
  return text;
}

std::string element_in_html(const Finding& finding) {
  if (!finding.first_difference) return "";
  const ElementDifference& one = *finding.first_difference;
  std::string text = fmt::format(
      "[{}]: {} on {} (<code>{}</code>), {} on {} (<code>{}</code>)", fmt::join(one.index, ", "),
      number_in_html(one.left_value), in_html(one.left), in_html(one.left_bits),
      number_in_html(one.right_value), in_html(one.right), in_html(one.right_bits));
  if (one.ulp_distance) text += fmt::format(", {} ULP apart", *one.ulp_distance);
  return text;
}

std::string course_in_html(const Finding& finding) {
  if (finding.last_step <= finding.step) return "";
  std::string text = fmt::format("until step {}", finding.last_step);
  if (finding.last_worst_difference != 0) {
    text += fmt::format(", by up to {:.6g} there", finding.last_worst_difference);
  }
  return text + fmt::format("; {} (step, tensor) pairs", finding.places);
}

std::string kind_in_html(const Finding& finding) {
  return fmt::format(
      "<b>{0}</b>: {1} <span class=\"soft\">More: <code>lockstep explain {0}</code>"
      "</span>",
      name(finding.kind), in_html(meaning_of(finding.kind)));
}

std::string failure_in_html(const Finding& finding) {
  if (!finding.failure || finding.failure->last_output.empty()) return "";
  const std::string label = fmt::format("The last output of rank {}", finding.failure->rank);
  return html_details(label, html_output(label, finding.failure->last_output));
}

std::string heading(const Finding& finding) {
  std::string text(name(finding.kind));
  if (finding.step > 0) text += fmt::format(" from step {}", finding.step);
  if (!finding.tensor.empty()) text += ": " + name_in_html(finding.tensor);
  return text;
}

std::string article(const FindingPlace& place, const ShownFinding& shown, std::size_t number) {
  const Finding& finding = *shown.finding;
  const std::vector<std::string> keys = keys_of(place.label, finding);
  const bool is_agreement = is_about_agreement(finding.claim);
  return fmt::format(
             "<article id=\"finding-{0}\" aria-labelledby=\"finding-{0}-title\">\n"
             "<h3 id=\"finding-{0}-title\">{1}</h3>\n",
             number, heading(finding)) +
         fmt::format("<p>{}</p>\n", in_html(finding.sentence)) +
         html_facts(
             {{"First step", step_in_html(finding)},
              {"First tensor", name_in_html(finding.tensor)},
              {is_agreement ? "Equal bits in" : "Ranks", groups_in_html(finding)},
              {"Ratio", ratio_in_html(finding)},
              {"Difference", difference_in_html(finding)},
              {"First element", element_in_html(finding)},
              {"Goes on", course_in_html(finding)},
              {"Tensors in that step", tensors_in_html(finding)},
              {"Broken claim", in_html(sentence(finding.claim))},
              {"Kind", kind_in_html(finding)},
              {"Run it again", place.reproduce.empty() ? "" : copied_in_html(place.reproduce)},
              {"Source", place.source},
              {"Key, for --known", keys.empty() ? "" : copied_in_html(keys.front())}}) +
         failure_in_html(finding) + "</article>\n";
}

}  // namespace

HtmlFindings::HtmlFindings()
    : table_("All findings", {{"Finding", true},
                              {"Step", true},
                              {"Kind"},
                              {"Tensor"},
                              {"Ranks"},
                              {"Ratio"},
                              {"Where"}}) {}

std::string HtmlFindings::add(const FindingPlace& place,
                              const std::vector<ShownFinding>& findings) {
  std::string text;
  for (const ShownFinding& shown : findings) {
    ++count_;
    add_row(place, *shown.finding);
    if (count_ <= kMostInFull) text += article(place, shown, count_);
  }
  return text;
}

void HtmlFindings::add_row(const FindingPlace& place, const Finding& finding) {
  if (count_ > kMostRows) return;
  const std::vector<std::vector<int>> groups = ranks_in_groups(finding);
  std::string ranks;
  for (std::size_t i = 0; i < std::min<std::size_t>(4, groups.size()); ++i) {
    ranks += (i == 0 ? "" : " | ") + ranks_in_short(groups[i], 4);
  }
  if (groups.size() > 4) ranks += " | ...";
  table_.add({count_ <= kMostInFull ? fmt::format("<a href=\"#finding-{0}\">{0}</a>", count_)
                                    : std::to_string(count_),
              finding.step > 0 ? std::to_string(finding.step) : "-",
              std::string(name(finding.kind)), in_html(finding.tensor, 120), ranks,
              in_html(origin_in_words(finding), 80), in_html(place.title, 120)});
}

std::string HtmlFindings::table() const {
  if (count_ == 0) return "<p>There are no findings.</p>\n";
  std::string text = table_.with_filter();
  if (count_ > kMostInFull) {
    text += fmt::format("<p>The first {} of {} findings are shown in full below.</p>\n",
                        kMostInFull, count_);
  }
  if (count_ > kMostRows) {
    text += fmt::format("<p>{} more are in record.json.</p>\n", count_ - kMostRows);
  }
  return text;
}

}  // namespace lockstep
