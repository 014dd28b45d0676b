#include "tests/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reports/formats/annotations.h"
#include "reports/formats/renderer.h"
#include "reports/formats/screen.h"
#include "reports/page/page_assets.h"
#include "tests/command.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_matrix.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

/// Of `tests/reports/formats/<name>.golden`.
void expect_golden(const std::string& name, const std::string& rendered) {
  expect_golden_file("reports/formats/" + name, rendered);
}

void replace(std::string& text, std::string_view found, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(found, at)) != std::string::npos; at += with.size()) {
    text.replace(at, found.size(), with);
  }
}

/// A page without the style and the scripts, which have files of their own. Their digests go, too.
std::string rendered(const std::string& format, const RunRecord& run) {
  std::string text = find_renderer(format).render(run);
  if (format != "html") return text;
  for (const auto& [asset, name] :
       {std::pair(kStyle, "page.css"), {kScript, "page.js"}, {kChartScript, "Chart.js"}}) {
    replace(text, asset.text, name);
  }
  for (std::size_t at = 0; (at = text.find("sha256-", at)) != std::string::npos;) {
    text.erase(at, text.find('\'', at) - at);
  }
  return text;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, IsMetByteForByte) { expect_golden(GetParam(), rendered(GetParam(), literal_run())); }

class GoldenOfJobs : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOfJobs, IsMetByteForByte) {
  expect_golden(GetParam() + "-jobs", rendered(GetParam(), literal_jobs()));
}

TEST(GoldenOfAnnotations, IsMetByteForByte) {
  expect_golden("annotations", annotations(literal_run()));
  expect_golden("annotations-jobs", annotations(literal_jobs()));
}

/// The other formats describe a matrix like any run.
class GoldenOfAMatrix : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOfAMatrix, IsMetByteForByte) {
  expect_golden(GetParam() + "-matrix", rendered(GetParam(), literal_matrix()));
}

/// Everything as expected, in two scenarios with tables.
RunRecord literal_green_run() {
  RunRecord run = literal_run();
  std::erase_if(run.cells,
                [](const CellRecord& cell) { return cell.verdict != CellVerdict::as_expected; });
  for (CellRecord cell : {literal_buggy(), literal_fixed(1)}) {
    cell.cell.scenario = "error-after-damage";
    cell.cell.device = DeviceKind::sim;
    run.cells.push_back(cell);
  }
  run.notes.clear();
  return run;
}

Screen golden_screen(Verbosity verbosity, std::size_t width) {
  Screen screen;
  screen.verbosity = verbosity;
  screen.width = width;
  screen.folder = "runs/latest";
  return screen;
}

/// The console at each verbosity, as wide as terminals are.
class GoldenOfAScreen : public testing::TestWithParam<std::tuple<Verbosity, std::size_t>> {
 protected:
  void expect_screen(const std::string& name, const RunRecord& run) {
    const auto [verbosity, width] = GetParam();
    expect_golden(fmt::format("screen-{}-{}-{}", name, lockstep::name(verbosity), width),
                  render_screen(run, golden_screen(verbosity, width)));
  }
};

TEST_P(GoldenOfAScreen, AsExpected) { expect_screen("green", literal_green_run()); }
TEST_P(GoldenOfAScreen, WithFailures) { expect_screen("failures", literal_run()); }
TEST_P(GoldenOfAScreen, OfJobs) { expect_screen("jobs", literal_jobs()); }

INSTANTIATE_TEST_SUITE_P(
    Of, GoldenOfAScreen,
    testing::Values(std::tuple(Verbosity::verdict, 80), std::tuple(Verbosity::overview, 40),
                    std::tuple(Verbosity::overview, 80), std::tuple(Verbosity::variants, 40),
                    std::tuple(Verbosity::variants, 80), std::tuple(Verbosity::full, 80)));

INSTANTIATE_TEST_SUITE_P(Of, GoldenOfAMatrix, testing::Values("console", "html", "markdown"),
                         [](const auto& format) { return format.param; });

RunRecord literal_run_on(DeviceKind device) {
  RunRecord run = literal_run();
  for (CellRecord& record : run.cells) record.cell.device = device;
  return run;
}

/// Each format in its own words; the CPU is not mentioned.
TEST(DeviceOfACell, IsNamedByEveryFormatUnlessItIsTheCpu) {
  for (const auto& [format, words] :
       {std::pair("console", "loss-on-unwrapped-module, 2 ranks on sim"),
        {"markdown", "loss-on-unwrapped-module, 2 ranks on sim"},
        {"junit", "name=\"bypass[w2,on=sim]\""},
        {"csv", "cell,loss-on-unwrapped-module,bypass,buggy,2,device=sim,"},
        {"csv", "value,loss-on-unwrapped-module,bypass,buggy,2,device=sim,"},
        {"csv", "buggy,2,device=sim tiles=4 bucket_view=on,"},
        {"json", "\"device\": \"sim\""}}) {
    const auto render = find_renderer(format).render;
    EXPECT_NE(render(literal_run_on(DeviceKind::sim)).find(words), std::string::npos)
        << format << words;
    EXPECT_EQ(render(literal_run_on(DeviceKind::cpu)).find("on cpu"), std::string::npos) << format;
  }
}

/// Covers scenarios whose line has no section of its own.
TEST(DeviceOfACell, IsNamedInTheDetectionTable) {
  for (const char* format : {"console", "markdown"}) {
    const std::string text = find_renderer(format).render(literal_run_on(DeviceKind::sim));
    EXPECT_NE(text.find("error-after-damage on sim "), std::string::npos) << text;
  }
}

std::vector<std::string> formats() {
  std::vector<std::string> names;
  for (const Renderer& renderer : renderers()) names.push_back(renderer.format);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Of, Golden, testing::ValuesIn(formats()),
                         [](const auto& format) { return format.param; });

INSTANTIATE_TEST_SUITE_P(Of, GoldenOfJobs, testing::ValuesIn(formats()),
                         [](const auto& format) { return format.param; });

TEST(Renderer, OffersTheNearestName) {
  try {
    find_renderer("jsn");
    FAIL() << "found";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("'json'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep
