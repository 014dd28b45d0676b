#include "reports/base/name_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using Texts = std::vector<std::string>;

TEST(Pattern, MatchesWholeNamesAndAnyTextForAStar) {
  for (const char* pattern : {"a.b", "*", "a*", "*b", "a*b", "a.b*", "*.*", "**"}) {
    EXPECT_TRUE(matches(pattern, "a.b")) << pattern;
  }
  for (const char* pattern : {"", "a", "b*", "*a", "a.b.*", "a*c", "A.b"}) {
    EXPECT_FALSE(matches(pattern, "a.b")) << pattern;
  }
}

TEST(Pattern, IsLookedForOnceHoweverManyStarsItHas) {
  EXPECT_FALSE(matches(std::string(2000, '*') + "x", std::string(200, 'a')));
  EXPECT_TRUE(matches("*a*a*b", "caaab"));
  EXPECT_FALSE(matches("a*a", "a")) << "no letter stands for two";
}

TEST(PatternOfNames, IsTheShortestThatFitsAllAndNoOther) {
  const Texts adapters{"m.0.lora_A.d.weight", "m.1.lora_A.d.weight"};
  EXPECT_EQ(pattern_of(adapters, {"m.0.lora_B.d.weight", "m.0.base.weight"}), "*.lora_A.*");
  EXPECT_EQ(pattern_of(adapters, {"m.0.lora_A.d.bias"}), "*.weight");
  EXPECT_EQ(pattern_of(adapters, {"m.0.lora_A.d.bias", "m.0.lora_B.d.weight"}),
            "*.lora_A.*.weight");
  EXPECT_EQ(pattern_of({"head.w", "head.b"}, {"body.w", "body.b"}), "head.*");
  EXPECT_EQ(pattern_of({"a.0.bias", "a.1.bias"}, {"b.0.bias", "a.0.w"}), "a.*.bias");
}

TEST(PatternOfNames, IsEmptyWhereNoneFits) {
  EXPECT_EQ(pattern_of({"a.w", "b.w"}, {"c.w"}), "");
  EXPECT_EQ(pattern_of({"a.w"}, {"b.w"}), "");
  EXPECT_EQ(pattern_of({}, {}), "");
  const std::string deep = "a.b.c.d.e.f.g.h.i.j.k.l.m.n";
  EXPECT_EQ(pattern_of({deep + ".w", deep + ".b"}, {}), "");
}

TEST(ShareOfNames, IsToldInWords) {
  EXPECT_EQ(share_in_words({"a.w", "b.w"}, {}), "all 2");
  EXPECT_EQ(share_in_words({"a.w"}, {"b.w"}), "1 of 2");
  EXPECT_EQ(share_in_words({"a.w"}, {}), "1 of 1");
  EXPECT_EQ(share_in_words({"a.w", "b.w"}, {"a.b"}), "2 of 3, all *.w");
  EXPECT_EQ(share_in_words({"a.w", "b.w", "c.w", "d.v"}, {"e.w", "f.v"}),
            "4 of 6: a.w, b.w, c.w and 1 more");
}

}  // namespace
}  // namespace lockstep
