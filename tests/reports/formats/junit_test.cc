#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "reports/formats/renderer.h"
#include "tests/command.h"
#include "tests/reports/formats/extreme_runs.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_run.h"
#include "tests/reports/formats/nasty_run.h"

namespace lockstep {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string kSchema = text_of(LOCKSTEP_SOURCE_DIR "/tests/reports/formats/junit-10.xsd");

/// The schema of Jenkins' plug-in with the attributes `file` and `line` of a case, which GitLab and
/// pytest (xunit1) know.
std::string schema_with_places() {
  const std::string last = "<xs:attribute name=\"classname\" type=\"xs:string\"/>";
  std::string schema = kSchema;
  return schema.replace(schema.find(last), last.size(),
                        last +
                            "<xs:attribute name=\"file\" type=\"xs:string\"/>"
                            "<xs:attribute name=\"line\" type=\"xs:positiveInteger\"/>");
}

/// xmllint's message about a document; empty if the schema accepts it.
std::string complaint(const std::string& document,
                      const std::string& schema = schema_with_places()) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "report.xml";
  write_text(file, document);
  write_text(folder.path() / "schema.xsd", schema);
  const Outcome outcome = run_shell("xmllint --nonet --noout --schema " +
                                    (folder.path() / "schema.xsd").string() + " " + file.string());
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

TEST_F(JunitSchema, IsThatOfJenkinsApartFromThePlacesOfCases) {
  const std::string document = render_junit(literal_run());
  EXPECT_THAT(complaint(document, kSchema), HasSubstr("The attribute 'file' is not allowed"));
  const std::regex places(R"re((<testcase [^>]*?) file="[^"]*"( line="[^"]*")?)re");
  EXPECT_EQ(complaint(std::regex_replace(document, places, "$1"), kSchema), "");
}

TEST_F(JunitSchema, IsMetWhateverTheTextAndTheTimes) {
  RunRecord run = nasty_run();
  run.cells[0].duration_s = kNaN;
  run.cells[1].duration_s = -1;
  run.cells[2].duration_s = 1e9;
  EXPECT_EQ(complaint(render_junit(run)), "");
  EXPECT_EQ(complaint(render_junit({})), "");
  for (const auto& [name, extreme] : extreme_runs(100)) {
    EXPECT_EQ(complaint(render_junit(extreme)), "") << name;
  }
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
                                   "time=\"0.125\" file=\"scenarios/synchronisation/"
                                   "loss_on_unwrapped_module.cc\" line=\"41\">"));
  EXPECT_THAT(not_found, HasSubstr("<failure type=\"not reproduced\" message=\"expected that it "
                                   "raises &quot;marked as ready twice&quot;, but no rank raised "
                                   "it\">"));
  EXPECT_THAT(not_found, HasSubstr("\nas expected: \"ranks finish\" is violated\n"));
  EXPECT_THAT(not_found, HasSubstr("\nrank 1 was killed by signal 6 (SIGABRT) in step 2.\n"
                                   "last output of rank 1:\n| terminate called"));
  EXPECT_THAT(
      case_of(literal_run(), "through-wrapper"),
      HasSubstr(
          "<failure type=\"wrong values\" message=\"ranks agree but are wrong from step 1 on: "
          "weight, ratio 0.25, cosine 0.98; gradients differ between ranks: weight in step 1, "
          "16 of 16 elements, by up to 0.2; "));
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

TEST(Junit, GivesAJobTheLineOfItsMismatchedCall) {
  RunRecord run;
  run.jobs = {literal_job("aa")};
  EXPECT_THAT(render_junit(run), Not(HasSubstr(" line=")));
  run.jobs[0].mismatch = literal_mismatch();
  EXPECT_THAT(render_junit(run), HasSubstr(" file=\"sync.cc\" line=\"36\">"));
}

TEST(Junit, HasATypeForEverySymptomOfAJob) {
  for (const std::string& word : all_names<SymptomKind>()) {
    const SymptomKind symptom = *parse<SymptomKind>(word);
    if (symptom == SymptomKind::right) continue;
    RunRecord run;
    run.jobs = {literal_job("a0")};
    run.jobs[0].symptom = literal_outcome(symptom, word);
    run.jobs[0].results[0].verdict = Verdict::violated;
    run.jobs[0].results[0].findings = {literal_divergence()};
    EXPECT_THAT(render_junit(run), HasSubstr(word)) << word;
  }
}

TEST(Junit, MakesAnErrorOfAJobThatCouldNotRun) {
  EXPECT_THAT(render_junit(literal_jobs()),
              HasSubstr("<error type=\"machine failed\" message=\"no process could be made\">"));
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
