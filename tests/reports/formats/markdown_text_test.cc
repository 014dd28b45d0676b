#include "reports/formats/markdown_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(MarkdownProse, LetsASentenceStandAsItIs) {
  const std::string sentence =
      "gradients do not agree: weight_0.bias differs by up to 1e-300 (0x3dcccccd; 13421773 ULP), "
      "step 2: 50% off! See file.cc:41.";
  EXPECT_EQ(in_prose(sentence), sentence);
}

TEST(MarkdownProse, FormatsNothing) {
  EXPECT_EQ(in_prose("**a** `b` [c](d) ~e~ |"),
            "&#42;&#42;a&#42;&#42; &#96;b&#96; &#91;c&#93;(d) &#126;e&#126; &#124;");
  EXPECT_EQ(in_prose("_a_ __init__ a_b \\"), "&#95;a&#95; &#95;&#95;init&#95;&#95; a_b &#92;");
  EXPECT_EQ(in_prose("<b> & </details> <!--"), "&lt;b&gt; &amp; &lt;/details&gt; &lt;!--");
  EXPECT_EQ(in_prose("$a$"), "<span>$</span>a<span>$</span>");
}

TEST(MarkdownProse, BeginsNoListAndNoHeading) {
  EXPECT_EQ(in_prose("- a"), "&#45; a");
  EXPECT_EQ(in_prose("1. a"), "1&#46; a");
  EXPECT_EQ(in_prose("    # a"), "&#35; a");
  EXPECT_EQ(in_prose("23)"), "23&#41;");
  EXPECT_EQ(in_prose("2.11.0 (1) 3. a"), "2.11.0 (1) 3. a");
  EXPECT_EQ(in_prose("> a"), "&gt; a");
  EXPECT_EQ(in_prose("a\n\n- b\r"), "a  - b&#92;x0d");
}

TEST(MarkdownProse, CallsNobodyAndLinksNothing) {
  EXPECT_EQ(in_prose("@octocat a@b.org"), "@&#8203;octocat a@&#8203;b.org");
  EXPECT_EQ(in_prose("#12 a/b#3 GH-4 #"), "&#35;&#8203;12 a/b#&#8203;3 GH-&#8203;4 #");
  EXPECT_EQ(in_prose("https://a.org www.a.org WWW.a.org"),
            "https:&#8203;//a.org www&#8203;.a.org WWW&#8203;.a.org");
  EXPECT_EQ(in_prose("at 7e8b9bb, 7e8b9b"), "at 7&#8203;e8b9bb, 7e8b9b");
}

TEST(MarkdownProse, ShowsNoPictures) {
  EXPECT_EQ(in_prose("a :tada: b"), "a :&#8203;tada: b");
  EXPECT_EQ(in_prose("c10::id::x"), "c10::&#8203;id::x");
  EXPECT_EQ(in_prose("a.cc:100:3"), "a.cc:&#8203;100:3");
  EXPECT_EQ(in_prose("a::b, c: d, 18:52:46"), "a::b, c: d, 18:52:46");
}

TEST(MarkdownProse, ReplacesWhatIsNoText) {
  EXPECT_EQ(in_prose("a\x1b[0m \xff"), "a&#92;x1b&#91;0m \xef\xbf\xbd");
}

TEST(MarkdownCode, IsQuotedByMoreBackticksThanItHas) {
  EXPECT_EQ(in_code("lockstep run <a> @b"), "`lockstep run <a> @b`");
  EXPECT_EQ(in_code("a `b`` c"), "``` a `b`` c ```");
  EXPECT_EQ(in_code("`"), "`` ` ``");
  EXPECT_EQ(in_code("a\nb"), "`a b`");
  EXPECT_EQ(in_code(""), "");
}

TEST(MarkdownBlock, IsFencedByMoreBackticksThanItHas) {
  EXPECT_EQ(fenced("a\nb"), "```text\na\nb\n```\n");
  EXPECT_EQ(fenced("a\n````\n"), "`````text\na\n````\n`````\n");
}

}  // namespace
}  // namespace lockstep
