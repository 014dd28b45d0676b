#include "reports/formats/annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/base/plain_text.h"
#include "reports/comparison/comparison_report.h"
#include "reports/formats/brief_findings.h"
#include "reports/formats/job_report.h"
#include "reports/formats/sections.h"
#include "reports/formats/shown_findings.h"
#include "reports/formats/source_place.h"
#include "reports/record/result.h"
#include "reports/record/without_secrets.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostOfAnAnnotation = 1000;
constexpr std::size_t kMostOfItsTitle = 200;

struct Annotation {
  bool is_error = true;  ///< else a warning
  SourcePlace place;
  std::string title;
  std::string message;
  int alike = 0;  ///< other cells of the variant with this result
};

/// The data of a workflow command: https://github.com/actions/toolkit, packages/core, command.ts.
std::string escaped_data(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '%':
        escaped += "%25";
        break;
      case '\r':
        escaped += "%0D";
        break;
      case '\n':
        escaped += "%0A";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

/// The same for a property, which a comma or a colon would end.
std::string escaped_property(const std::string& text) {
  std::string escaped;
  for (const char c : escaped_data(text)) {
    if (c == ':') {
      escaped += "%3A";
    } else if (c == ',') {
      escaped += "%2C";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string command_of(const Annotation& annotation) {
  std::string properties;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    properties +=
        fmt::format("{}{}={}", properties.empty() ? "" : ",", name, escaped_property(plain(value)));
  };
  // No path of a repository is longer.
  if (annotation.place.file.size() <= kMostOfAnAnnotation) {
    add("file", annotation.place.file);
    add("line", annotation.place.line);
  }
  add("title", beginning("Lockstep: " + annotation.title, kMostOfItsTitle));
  std::string message = annotation.message;
  if (annotation.alike > 0) message += fmt::format("\n{} more cells like this", annotation.alike);
  return fmt::format("::{} {}::{}\n", annotation.is_error ? "error" : "warning", properties,
                     escaped_data(beginning(printable(message), kMostOfAnAnnotation)));
}

/// Findings say more than the symptom; the first one is enough to begin with.
std::string first_sentence(const std::vector<ShownFinding>& findings) {
  const auto first = std::find_if(findings.begin(), findings.end(), [](const ShownFinding& shown) {
    return !shown.sentence.empty();
  });
  return first == findings.end() ? "" : "\n" + first->sentence;
}

/// Cells without an annotation are as expected, or were left out as planned or by an interruption.
bool is_annotated(const CellRecord& cell) {
  const Result result = result_of(cell);
  return result == Result::not_run ? cell.not_run.has_value() : result != Result::as_expected;
}

Annotation annotation_of(const CellRecord& cell) {
  Annotation annotation;
  const Result result = result_of(cell);
  annotation.is_error = is_failure(result);
  annotation.place = place_of(cell.source);
  annotation.title = fmt::format("{}: {}", name(result), title_of(cell.cell));
  annotation.message = cause_of(cell) + first_sentence(brief_findings(cell));
  if (!cell.reproduce.empty()) annotation.message += "\nagain: " + cell.reproduce;
  return annotation;
}

Annotation annotation_of(const JobRecord& job) {
  Annotation annotation;
  annotation.is_error = status_of(job) == ExitStatus::failed;
  annotation.place = place_of(job);
  annotation.title = title_of(job);
  annotation.message = heading_of(job) + first_sentence(brief_findings(job));
  return annotation;
}

Annotation annotation_of(const Comparison& comparison) {
  Annotation annotation;
  annotation.is_error = status_of(comparison) == ExitStatus::failed;
  annotation.title = title_of(comparison);
  annotation.message = heading_of(comparison);
  return annotation;
}

/// One for each variant and result: a matrix has thousands of cells.
void append_cells(const RunRecord& run, std::vector<Annotation>& all) {
  std::map<std::pair<std::string, Result>, std::size_t> places;
  for (const CellRecord& cell : run.cells) {
    if (!is_annotated(cell)) continue;
    const auto variant = cell.cell.scenario + "/" + cell.cell.variant;
    const auto [at, is_new] = places.try_emplace({variant, result_of(cell)}, all.size());
    if (is_new) {
      all.push_back(annotation_of(cell));
    } else {
      ++all[at->second].alike;
    }
  }
}

}  // namespace

std::string annotations(const RunRecord& given) {
  const RunRecord run = without_secrets(given);
  std::vector<Annotation> all;
  for (const JobRecord& job : run.jobs) {
    if (status_of(job) != ExitStatus::as_expected) all.push_back(annotation_of(job));
  }
  for (const Comparison& one : run.comparisons) {
    if (status_of(one) != ExitStatus::as_expected) all.push_back(annotation_of(one));
  }
  append_cells(run, all);
  std::stable_partition(all.begin(), all.end(), [](const Annotation& one) { return one.is_error; });
  if (all.size() > kMostAnnotations) {
    Annotation rest;
    rest.is_error = all[kMostAnnotations - 1].is_error;
    rest.title = fmt::format("{} more", all.size() - (kMostAnnotations - 1));
    rest.message = "The summary of the job and report.html have all of them.";
    all.resize(kMostAnnotations - 1);
    all.push_back(rest);
  }
  std::string text;
  for (const Annotation& one : all) text += command_of(one);
  return text;
}

}  // namespace lockstep
