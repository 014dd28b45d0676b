#include "tests/golden.h"

#include <gtest/gtest.h>

#include "reports/formats/renderer.h"
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

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, IsMetByteForByte) {
  expect_golden(GetParam(), find_renderer(GetParam()).render(literal_run()));
}

class GoldenOfJobs : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOfJobs, IsMetByteForByte) {
  expect_golden(GetParam() + "-jobs", find_renderer(GetParam()).render(literal_jobs()));
}

/// The other formats say of a matrix what they say of any run.
class GoldenOfAMatrix : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOfAMatrix, IsMetByteForByte) {
  expect_golden(GetParam() + "-matrix", find_renderer(GetParam()).render(literal_matrix()));
}

INSTANTIATE_TEST_SUITE_P(Of, GoldenOfAMatrix, testing::Values("console", "markdown"),
                         [](const auto& format) { return format.param; });

RunRecord literal_run_on(const std::string& device) {
  RunRecord run = literal_run();
  for (CellRecord& record : run.cells) record.cell.device = device;
  return run;
}

/// Each format in its own words; the CPU is not worth one.
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
    EXPECT_NE(render(literal_run_on("sim")).find(words), std::string::npos) << format << words;
    EXPECT_EQ(render(literal_run_on("cpu")).find("on cpu"), std::string::npos) << format;
  }
}

/// Where a scenario's line has no section beside it.
TEST(DeviceOfACell, IsNamedInTheDetectionTable) {
  for (const char* format : {"console", "markdown"}) {
    const std::string text = find_renderer(format).render(literal_run_on("sim"));
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
