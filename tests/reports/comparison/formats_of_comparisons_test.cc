// Whatever a comparison turns out to be, all formats agree with its exit status.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <string>
#include <vector>

#include "reports/comparison/comparison_report.h"
#include "reports/formats/annotations.h"
#include "reports/formats/renderer.h"
#include "reports/page/html_text.h"
#include "reports/record/json.h"
#include "tests/reports/comparison/literal_comparisons.h"
#include "tests/reworded.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr std::array kOutcomes{SideOutcome::trained,       SideOutcome::ranks_differ,
                               SideOutcome::not_finite,    SideOutcome::raised,
                               SideOutcome::out_of_memory, SideOutcome::hung,
                               SideOutcome::died};

std::vector<ComparedPair> all_pairs(const std::string& title) {
  std::vector<ComparedPair> pairs;
  for (const SideOutcome outcome : kOutcomes) {
    for (const std::string_view likeness : Names<Likeness>::values) {
      pairs.push_back(literal_pair(*parse<Likeness>(likeness), outcome, title));
    }
  }
  ComparedPair other_samples = literal_pair(Likeness::different, SideOutcome::trained, title);
  other_samples.preconditions[1].likeness = Likeness::different;
  other_samples.result = {};
  conclude(other_samples);
  pairs.push_back(other_samples);
  ComparedPair unmatched = literal_pair(Likeness::equal, SideOutcome::trained, title);
  unmatched.matched = 0;
  unmatched.result = {};
  conclude(unmatched);
  pairs.push_back(unmatched);
  return pairs;
}

/// One of each outcome, and one of each likeness.
std::vector<ComparedPair> some_pairs(const std::string& title) {
  std::vector<ComparedPair> pairs;
  for (const SideOutcome outcome : kOutcomes) {
    pairs.push_back(literal_pair(Likeness::equal, outcome, title));
  }
  for (const std::string_view likeness : Names<Likeness>::values) {
    pairs.push_back(literal_pair(*parse<Likeness>(likeness), SideOutcome::trained, title));
  }
  return pairs;
}

std::vector<Comparison> all_comparisons() {
  std::vector<Comparison> all;
  for (const ComparedPair& pair : all_pairs("train.py")) {
    for (const std::string_view expected : Names<ComparisonExpectation>::values) {
      Comparison comparison;
      comparison.expected = *parse<ComparisonExpectation>(expected);
      comparison.pairs = {pair};
      all.push_back(comparison);
    }
    Comparison repetition;
    repetition.purpose = ComparisonPurpose::repetition;
    repetition.pairs = {pair};
    repetition.pairs[0].result = {};
    conclude_repetition(repetition.pairs[0]);
    all.push_back(repetition);
  }
  for (const ComparedPair& before : some_pairs("before.py")) {
    for (const ComparedPair& after : some_pairs("after.py"))
      all.push_back(literal_fix(before, after));
  }
  for (const bool is_shared : {false, true}) {
    Comparison validated =
        literal_fix(some_pairs("before.py").back(), some_pairs("after.py").front());
    validated.cell = "ranks=2";
    validated.code.emplace();
    validated.code->changed = {"src/a.py"};
    if (is_shared) validated.code->shared = {"src/a.py"};
    validated.code->is_seen = true;
    all.push_back(validated);
  }
  Comparison missing;
  missing.failure = "the job was not compared: runs/good is gone";
  all.push_back(missing);
  return all;
}

/// "failure", "error" or nothing.
std::string element_of_junit(const std::string& text) {
  pugi::xml_document document;
  EXPECT_TRUE(document.load_string(text.c_str()));
  const pugi::xml_node node = document.child("testsuites").child("testsuite").child("testcase");
  return node.child("failure") ? "failure" : node.child("error") ? "error" : "";
}

/// As the program prints it: wrapped.
std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool is_blank = c == ' ' || c == '\n';
    if (!is_blank) line += c;
    if (is_blank && !line.ends_with(' ')) line += ' ';
  }
  return line;
}

TEST(FormatsOfAComparison, AgreeWithItsExitStatus) {
  for (const Comparison& comparison : all_comparisons()) {
    const RunRecord run = run_with(comparison);
    const ExitStatus status = exit_status(run);
    const std::string heading = heading_of(comparison);
    SCOPED_TRACE(heading);
    ASSERT_EQ(status, status_of(comparison));
    EXPECT_EQ(exit_status(read_json(render_json(run), "record.json")), status);
    EXPECT_EQ(read_json(render_json(run), "record.json"), run);

    const auto summary = nlohmann::json::parse(render_summary(run));
    EXPECT_EQ(summary["exit_status"], static_cast<int>(status));
    EXPECT_EQ(summary["comparisons"][0]["exit_status"], static_cast<int>(status));
    EXPECT_EQ(summary["verdict"] == "holds", status == ExitStatus::as_expected);

    const std::string element = element_of_junit(render_junit(run));
    EXPECT_EQ(element, status == ExitStatus::as_expected ? ""
                       : status == ExitStatus::failed    ? "failure"
                                                         : "error");
    EXPECT_THAT(in_one_line(render_console(run)), HasSubstr(heading));
    EXPECT_THAT(render_html(run), HasSubstr(status == ExitStatus::as_expected ? "class=\"good\""
                                            : status == ExitStatus::failed    ? "class=\"bad\""
                                                                              : "class=\"open\""));
    const std::string page = render_markdown(run);
    EXPECT_EQ(page.substr(0, page.find('\n')).find("all ranks agree"), std::string::npos);
    EXPECT_LE(std::count(page.begin(), page.end(), '\n'), 40);
    EXPECT_EQ(annotations(run).empty(), status == ExitStatus::as_expected);
    EXPECT_EQ(annotations(run).starts_with("::error"), status == ExitStatus::failed);
    const bool has_finding =
        !comparison.pairs.empty() && !comparison.pairs.back().result.findings.empty();
    EXPECT_EQ(!render_keys(run).empty(), has_finding);
    EXPECT_THAT(render_csv(run), HasSubstr("\ncomparison,"));
  }
}

/// What a comparison says to programs.
std::string verdicts_in(const Comparison& comparison) {
  const RunRecord run = run_with(comparison);
  std::string text = fmt::format("{}\n{}", static_cast<int>(exit_status(run)), render_keys(run));
  if (comparison.pairs.size() == 2) text += name(outcome_of_fix(comparison));
  for (const ComparedPair& pair : comparison.pairs) {
    text += fmt::format("{}\n", name(verdict_of(pair)));
  }
  return text + annotations(run).substr(0, 8) + element_of_junit(render_junit(run));
}

TEST(FormatsOfAComparison, DoNotDependOnSentences) {
  for (const Comparison& comparison : all_comparisons()) {
    SCOPED_TRACE(heading_of(comparison));
    Comparison other = reworded(comparison);
    EXPECT_EQ(verdicts_in(other), verdicts_in(comparison));
    if (comparison.purpose == ComparisonPurpose::repetition) continue;
    for (ComparedPair& pair : other.pairs) {
      pair.result = {};
      conclude(pair);
    }
    EXPECT_EQ(verdicts_in(other), verdicts_in(comparison)) << "concluded again";
  }
}

}  // namespace
}  // namespace lockstep
