#include "reports/formats/renderer.h"

#include <algorithm>

#include "reports/base/error.h"
#include "reports/record/json.h"

namespace lockstep {

const std::vector<Renderer>& renderers() {
  static const std::vector<Renderer> kRenderers{
      {"console", "report.txt", "tables, findings in sentences and the detection table",
       render_console},
      {"csv", "report.csv", "one line per cell, symptom, claim and value", render_csv},
      {"github", "github.md", "the summary of a job of GitHub Actions; there also annotations",
       render_github},
      {"html", "report.html", "one page with charts and filters, for a browser", render_html, true},
      {"json", "report.json", "the whole record, by record.schema.json", render_json},
      {"junit", "report.xml", "a test case per cell, for the test pages of CI systems",
       render_junit},
      {"keys", "known.txt", "a line per finding, for `--known`", render_keys},
      {"markdown", "report.md", "a comment on a pull request or merge request", render_markdown},
      {"summary", "summary.json",
       "one verdict, the findings with their kinds and keys, for scripts", render_summary},
  };
  return kRenderers;
}

bool has_charts(const std::vector<const Renderer*>& chosen) {
  return std::any_of(chosen.begin(), chosen.end(),
                     [](const Renderer* one) { return one->has_charts; });
}

const Renderer& find_renderer(const std::string& format) {
  const std::vector<Renderer>& all = renderers();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const Renderer& renderer) { return renderer.format == format; });
  if (found != all.end()) return *found;
  throw unknown_name("format", format, format_names());
}

std::vector<const Renderer*> find_renderers(const std::vector<std::string>& formats) {
  std::vector<const Renderer*> found;
  for (const std::string& format : formats) found.push_back(&find_renderer(format));
  return found;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Renderer& renderer : renderers()) names.push_back(renderer.format);
  return names;
}

std::string formats_in_words() {
  std::string text;
  for (const std::string& name : format_names()) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace lockstep
