#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/formats/renderer.h"
#include "tests/command.h"
#include "tests/reports/formats/literal_run.h"
#include "tests/reports/formats/nasty_run.h"

namespace lockstep {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// xmllint's message about a document; empty if the schema accepts it.
std::string complaint(const std::string& document) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "report.xml";
  write_text(file, document);
  const Outcome outcome = run_shell("xmllint --nonet --noout --schema " LOCKSTEP_SOURCE_DIR
                                    "/tests/reports/formats/junit-10.xsd " +
                                    file.string());
  return outcome.status == 0 ? "" : outcome.err;
}

class JunitSchema : public testing::Test {
 protected:
  void SetUp() override {
    if (run_shell("command -v xmllint").status != 0) {
      GTEST_SKIP() << "xmllint is missing (Debian package libxml2-utils)";
    }
  }
};

TEST_F(JunitSchema, IsMetByTheGolden) {
  EXPECT_EQ(complaint(text_of(LOCKSTEP_SOURCE_DIR "/tests/reports/formats/junit.golden")), "");
}

TEST_F(JunitSchema, IsMetWhateverTheTextAndTheTimes) {
  RunRecord run = nasty_run();
  run.cells[0].duration_s = kNaN;
  run.cells[1].duration_s = -1;
  run.cells[2].duration_s = 1e9;
  EXPECT_EQ(complaint(render_junit(run)), "");
  EXPECT_EQ(complaint(render_junit({})), "");
}

TEST_F(JunitSchema, RefusesWhatIsPlanted) {
  const std::string document = render_junit(literal_run());
  const auto planted = [&](const std::string& text, const std::string& instead) {
    std::string faulty = document;
    faulty.replace(faulty.find(text), text.size(), instead);
    return complaint(faulty);
  };
  EXPECT_EQ(complaint(document), "");
  EXPECT_THAT(planted("time=\"", "time=\"1e"), HasSubstr("fails to validate"));
  EXPECT_THAT(planted(" tests=", " runs="), HasSubstr("fails to validate"));
  EXPECT_THAT(planted("<testcase ", "<case/><testcase "), HasSubstr("fails to validate"));
  EXPECT_THAT(planted("as expected", "\x1b"), HasSubstr("parser error"));
  EXPECT_THAT(planted("as expected", "&#27;"), HasSubstr("parser error"));
  EXPECT_THAT(planted("as expected", "\xff"), HasSubstr("parser error"));
  EXPECT_THAT(planted("</testcase>", ""), HasSubstr("parser error"));
}

/// The element of the test case `name`.
std::string case_of(const RunRecord& run, const std::string& name) {
  const std::string text = render_junit(run);
  const auto begin = text.rfind("<testcase", text.find("name=\"" + name + "["));
  return text.substr(begin, text.find("</testcase>", begin) - begin);
}

TEST(Junit, MakesAFailureOfWhatIsNotAsExpected) {
  const std::string not_found = case_of(literal_run(), "as-was");
  EXPECT_THAT(not_found, HasSubstr("<testcase classname=\"error-after-damage\" "
                                   "name=\"as-was[w2,tiles=4,bucket_view=on]\" "
                                   "time=\"0.125\">"));
  EXPECT_THAT(not_found, HasSubstr("<failure type=\"not reproduced\" message=\"expected that it "
                                   "raises &quot;marked as ready twice&quot;, but no rank raised "
                                   "it\">"));
  EXPECT_THAT(not_found, HasSubstr("\nas expected: \"ranks finish\" is violated\n"));
  EXPECT_THAT(not_found, HasSubstr("\nrank 1 was killed by signal 6 (SIGABRT) in step 2.\n"
                                   "last output of rank 1:\n| terminate called"));
  EXPECT_THAT(
      case_of(literal_run(), "through-wrapper"),
      HasSubstr("<failure type=\"wrong values\" message=\"ranks agree but are wrong from "));
}

TEST(Junit, TellsUndecidedNotApplicableAndAsExpectedApart) {
  EXPECT_THAT(
      case_of(literal_run(), "hidden"),
      HasSubstr("<error type=\"undecided\" message=\"not triggered: nothing was compared\">"));
  EXPECT_THAT(case_of(literal_run(), "averaged"),
              HasSubstr("<skipped type=\"not applicable\" message=\"needs at least 3 ranks, a sum "
                        "of two has no order\" />"));
  for (const char* element : {"<failure", "<error", "<skipped"}) {
    EXPECT_THAT(case_of(literal_run(), "bypass"), Not(HasSubstr(element)));
  }
}

TEST(Junit, CountsPerScenario) {
  EXPECT_THAT(render_junit(literal_run()),
              HasSubstr("<testsuite name=\"error-after-damage\" tests=\"2\" failures=\"1\" "
                        "errors=\"0\" time=\"0.250\" skipped=\"1\" "
                        "timestamp=\"2026-11-20T18:52:46\" hostname=\"node-1\" "));
  EXPECT_THAT(render_junit(literal_run()),
              HasSubstr("<testsuites name=\"lockstep\" tests=\"10\" failures=\"3\" errors=\"1\" "));
}

TEST(Junit, NamesRepetitionsAndSaysHowToRunACellAgain) {
  EXPECT_THAT(render_junit(literal_run()), HasSubstr("name=\"all-reduce-each[w2,repetition=2]\""));
  EXPECT_THAT(case_of(literal_run(), "bypass"),
              ContainsRegex("<system-out>bypass \\(buggy\\): as expected\nsymptom: ranks "
                            "differ[^\n]*\nsource: [^\n]*\nagain: "
                            "lockstep run loss-on-unwrapped-module/bypass --ranks 2"));
}

TEST(Junit, SaysWhyACellWasNotTriggered) {
  EXPECT_THAT(case_of(literal_run(), "one-micro-batch"),
              HasSubstr("as expected: not triggered\nas expected: it is not triggered: no rank "));
}

TEST(Junit, ReplacesWhatXmlForbids) {
  const std::string text = render_junit(nasty_run());
  EXPECT_THAT(text, HasSubstr("\\x01\\x08\\x1b[31m\\x7f\\x0d"));
  EXPECT_THAT(text, HasSubstr("]]&gt; &amp; &lt;script&gt;"));
  for (const char* forbidden : {"\x1b", "\xff", "\xef\xbf\xbe", "\xef\xbf\xbf", "\xed\xa0"}) {
    EXPECT_THAT(text, Not(HasSubstr(forbidden)));
  }
}

}  // namespace
}  // namespace lockstep
