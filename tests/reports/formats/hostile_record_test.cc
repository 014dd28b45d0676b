#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "reports/formats/renderer.h"
#include "reports/record/json.h"
#include "tests/command.h"
#include "tests/reports/formats/filled_record.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_matrix.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

/// Text that a terminal, a CI service or a spreadsheet would obey, at the beginning of the text and
/// of lines in it.
const std::vector<std::string> kHostile{
    std::string(
        "::error::pwned\n::error file=x::y\r\n \t::warning::z \x1b[2J\x1b]0;title\x07\0\x7f", 62) +
        "\xc2\x9b \xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c \xc2\xa0::stop-commands::x "
        "##[add-mask]x ##vso[task.setvariable]y ##teamcity[z",
    "=HYPERLINK(\"http://example.org\")",
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\u202e=1"};

std::vector<unsigned> code_points(const std::string& text) {
  std::vector<unsigned> points;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) == 0x80) {
      points.back() = (points.back() << 6) | (byte & 0x3fU);
    } else {
      points.push_back(byte < 0x80 ? byte : byte & (byte < 0xe0 ? 0x1fU : byte < 0xf0 ? 0xfU : 7U));
    }
  }
  return points;
}

bool is_obeyed(unsigned point) {
  const bool is_control = (point < 0x20 && point != '\n') || (point >= 0x7f && point < 0xa0);
  const bool is_direction = point == 0x61c || point == 0x200e || point == 0x200f ||
                            (point >= 0x202a && point <= 0x202e) ||
                            (point >= 0x2066 && point <= 0x2069);
  return is_control || is_direction || point == 0x2028 || point == 0x2029;
}

/// Words that a CI service takes for a command: at the beginning of a line, after any blanks, or
/// anywhere.
bool has_command(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \xc2\xa0");
  return (begin != std::string::npos && line.compare(begin, 2, "::") == 0) ||
         line.find("##[") != std::string::npos || line.find("##vso[") != std::string::npos ||
         line.find("##teamcity[") != std::string::npos;
}

void expect_harmless(const std::string& text, const std::string& what) {
  for (const unsigned point : code_points(text)) {
    ASSERT_FALSE(is_obeyed(point)) << what << ": U+" << std::hex << point;
  }
  for (const std::string& line : lines_of(text)) ASSERT_FALSE(has_command(line)) << what << line;
}

/// The first characters of the cells of a report.
std::string beginnings(const std::string& csv) {
  std::string first;
  bool is_first = true;
  bool is_quoted = false;
  for (const char c : csv) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && (c == ',' || c == '\n')) {
      is_first = true;
    } else if (is_first) {
      first += c;
      is_first = false;
    }
  }
  return first;
}

class HostileRecord : public testing::TestWithParam<std::string> {};

TEST_P(HostileRecord, IsObeyedByNobodyWhicheverFieldHoldsIt) {
  for (const std::string& text : kHostile) {
    for (const Empty empty : {Empty::stays, Empty::is_filled}) {
      for (RunRecord run : {literal_run(), literal_matrix(), literal_jobs()}) {
        fill(run, text, empty);
        expect_harmless(find_renderer(GetParam()).render(run), GetParam());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(In, HostileRecord,
                         testing::Values("console", "csv", "github", "html", "json", "junit",
                                         "markdown", "summary"),
                         [](const auto& format) { return format.param; });

TEST(HostileRecord, HasNoFormulaInACellOfTheCsvReport) {
  for (const std::string& text : kHostile) {
    RunRecord run = literal_run();
    run.tables.clear();
    fill(run, text, Empty::is_filled);
    const std::string first = beginnings(render_csv(run));
    for (const char formula : {'=', '+', '@', '\t'}) {
      EXPECT_THAT(first, testing::Not(testing::HasSubstr(std::string(1, formula)))) << text;
    }
  }
}

/// The elements of a page without its style and scripts.
std::set<std::string> elements_of(std::string page) {
  for (const std::string name : {"style", "script"}) {
    for (std::size_t at = 0; (at = page.find("<" + name + ">", at)) != std::string::npos; ++at) {
      page.erase(at + 1 + name.size(), page.find("</" + name + ">", at) - at - 1 - name.size());
    }
  }
  std::set<std::string> elements;
  for (std::size_t at = 0; (at = page.find('<', at)) != std::string::npos;) {
    const std::size_t end = page.find_first_of(" >/", at + 2);
    elements.insert(page.substr(at + 1, end - at - 1));
    at = end;
  }
  return elements;
}

TEST(HostileRecord, AddsNoElementToAPage) {
  for (const RunRecord& run : {literal_run(), literal_matrix(), literal_jobs()}) {
    RunRecord plain = run;
    fill(plain, "x", Empty::stays);
    const std::set<std::string> known = elements_of(render_html(plain));
    for (const char* text : {"<planted>", "\"><planted>", "'><planted>", "</script><planted>",
                             "--><planted>", "</title></style></svg><planted>"}) {
      RunRecord hostile = run;
      fill(hostile, text, Empty::stays);
      const std::string page = render_html(hostile);
      EXPECT_EQ(elements_of(page), known) << text;
      EXPECT_THAT(page, testing::HasSubstr("&lt;planted&gt;"));
    }
  }
}

TEST(HostileRecord, IsReadBackFromItsJsonAsItWas) {
  RunRecord run;
  run.cells = {literal_buggy()};
  run.cells[0].results.clear();
  fill(run, kHostile[0], Empty::is_filled);
  EXPECT_EQ(read_json(render_json(run), "record.json"), run);
}

}  // namespace
}  // namespace lockstep
