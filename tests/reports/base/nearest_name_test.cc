#include "reports/base/nearest_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

TEST(NearestName, CountsEdits) {
  const std::vector<std::string> known{"csv", "json", "console"};
  EXPECT_EQ(nearest_name("jsn", known), "json");    // a letter missing
  EXPECT_EQ(nearest_name("jsoon", known), "json");  // a letter too many
  EXPECT_EQ(nearest_name("jzon", known), "json");   // a wrong letter
  EXPECT_EQ(nearest_name("josn", known), "json");   // two swapped
  EXPECT_EQ(nearest_name("cvs", known), "csv");     // two swapped in a short name
  EXPECT_EQ(nearest_name("konzole", known), "console");
}

TEST(NearestName, TakesTheFewestEdits) {
  EXPECT_EQ(nearest_name("fixed-b", {"fixed-a-1", "fixed-a", "fixed-bb"}), "fixed-a");
  EXPECT_EQ(nearest_name("exact", {"exalt", "exact"}), "exact");
}

TEST(NearestName, OffersTheOnlyNameThatBeginsSo) {
  EXPECT_EQ(nearest_name("uneven", {"uneven-batches-hang", "loss"}), "uneven-batches-hang");
  EXPECT_EQ(nearest_name("--max", {"--max-cells", "--matrix"}), "--max-cells");
  EXPECT_EQ(nearest_name("loss", {"loss-on-unwrapped", "loss-on-unwrapped-pipeline"}), "");
  EXPECT_EQ(nearest_name("un", {"uneven-batches-hang"}), "") << "a letter or two mean nothing";
}

TEST(NearestName, OffersNothingThatIsFarOff) {
  EXPECT_EQ(nearest_name("x", {"a", "csv"}), "");
  EXPECT_EQ(nearest_name("", {"a", "csv"}), "");
  EXPECT_EQ(nearest_name("xml", {"csv", "json"}), "");
  EXPECT_EQ(nearest_name("csv", {}), "");
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'c'), {"csv"}), "");
}

}  // namespace
}  // namespace lockstep
