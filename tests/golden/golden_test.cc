#include <gtest/gtest.h>

#include <cstdlib>

#include "reports/renderer.h"
#include "tests/command.h"
#include "tests/golden/literal_run.h"

namespace lockstep {
namespace {

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, IsMetByteForByte) {
  const std::string path = LOCKSTEP_SOURCE_DIR "/tests/golden/" + GetParam() + ".golden";
  const std::string rendered = find_renderer(GetParam()).render(literal_run());
  if (std::getenv("LOCKSTEP_UPDATE_GOLDENS")) {
    write_text(path, rendered);
    FAIL() << path << " was written anew; read it before you trust it";
  }
  EXPECT_EQ(rendered, text_of(path)) << "LOCKSTEP_UPDATE_GOLDENS=1 writes " << path << " anew";
}

std::vector<std::string> formats() {
  std::vector<std::string> names;
  for (const Renderer& renderer : renderers()) names.push_back(renderer.format);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Of, Golden, testing::ValuesIn(formats()),
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
