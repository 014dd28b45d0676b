#include "reports/base/csv_text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string_view> kColumns{"step", "name", "value"};
const std::string kCsvHeader = "step,name,value\n";

class CsvText : public ::testing::Test {
 protected:
  struct Row {
    std::int64_t line = 0;
    std::uint64_t offset = 0;
    std::vector<std::string> cells;

    bool operator==(const Row&) const = default;
  };

  struct File : CsvFrame {
    std::vector<Row> rows;

    void add(const CsvRow& row) {
      rows.push_back({row.line, row.offset, {row.cells.begin(), row.cells.end()}});
    }
  };

  static CsvKind kind(TornTail torn) { return {kColumns, torn, kLargestPublishedTable}; }

  File read(const std::string& text, TornTail torn = TornTail::is_an_error) {
    std::ofstream(path_, std::ios::binary) << text;
    File file;
    static_cast<CsvFrame&>(file) =
        read_csv(path_, kind(torn), [&](const CsvRow& row) { file.add(row); });
    return file;
  }

  /// The error without the path in front of `:line`.
  std::string refusal(const std::string& text) {
    return refusal_of(path_, [&] { read(text); });
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  fs::path path_ = folder_ / "t.csv";
};

using Cells = std::vector<std::string>;

TEST_F(CsvText, ReadsRowsWithTheirLines) {
  const File file = read(kCsvHeader + "1,w,0.5\n2,,-1\n");
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.rows[0].line, 2);
  EXPECT_EQ(file.rows[0].cells, (Cells{"1", "w", "0.5"}));
  EXPECT_EQ(file.rows[1].line, 3);
  EXPECT_EQ(file.rows[1].cells, (Cells{"2", "", "-1"}));
  EXPECT_FALSE(file.torn_tail);
}

TEST_F(CsvText, ReadsAPartAsItReadItInTheWhole) {
  std::string text = "\xEF\xBB\xBF" + kCsvHeader;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + ",\"a,b\",2" + (i % 2 ? "\r\n" : "\n");
  const File whole = read(text + "torn", TornTail::is_left_out);
  ASSERT_EQ(whole.rows.size(), 1000u);
  EXPECT_EQ(whole.end, text.size());
  for (const auto& [begin, end] : {std::pair{0, 1}, {0, 1000}, {17, 400}, {999, 1000}}) {
    const Row& first = whole.rows[begin];
    const std::uint64_t behind = end == 1000 ? whole.end : whole.rows[end].offset;
    File part;
    read_csv(path_, kind(TornTail::is_left_out),
             CsvPart{first.offset, behind - first.offset, first.line},
             [&](const CsvRow& row) { part.add(row); });
    EXPECT_EQ(part.rows, std::vector(whole.rows.begin() + begin, whole.rows.begin() + end));
  }
}

TEST_F(CsvText, ReadsAHeaderAlone) { EXPECT_TRUE(read(kCsvHeader).rows.empty()); }

TEST_F(CsvText, ReadsQuotedCells) {
  const File file = read(kCsvHeader + "1,\"a,b\",\"say \"\"yes\"\"\"\n2,\"\",\"\"\"\"\n");
  EXPECT_EQ(file.rows[0].cells, (Cells{"1", "a,b", "say \"yes\""}));
  EXPECT_EQ(file.rows[1].cells, (Cells{"2", "", "\""}));
}

TEST_F(CsvText, KeepsSpaces) {
  EXPECT_EQ(read(kCsvHeader + " 1 ,\tw, \n").rows[0].cells, (Cells{" 1 ", "\tw", " "}));
}

TEST_F(CsvText, ReadsLinesThatEndInCrLf) {
  const File file = read("step,name,value\r\n1,w,2\r\n");
  EXPECT_EQ(file.rows[0].cells, (Cells{"1", "w", "2"}));
}

TEST_F(CsvText, SkipsAByteOrderMark) {
  EXPECT_EQ(read("\xEF\xBB\xBF" + kCsvHeader + "1,w,2\n").rows.size(), 1u);
}

TEST_F(CsvText, ReadsAFileLargerThanTheParsersBuffer) {
  const std::string row = "1," + std::string(1000, 'w') + ",2\n";
  std::string text = kCsvHeader;
  constexpr std::size_t kRows = 36'000;
  for (std::size_t i = 0; i < kRows; ++i) text += row;
  ASSERT_GT(text.size(), std::size_t{2} << 24);
  const File file = read(text);
  ASSERT_EQ(file.rows.size(), kRows);
  for (const Row& one : file.rows) ASSERT_EQ(one.cells[1].size(), 1000u);
  EXPECT_EQ(file.rows.back().line, static_cast<std::int64_t>(kRows) + 1);
}

TEST_F(CsvText, LeavesATornTailOutWhereItMay) {
  const File file = read(kCsvHeader + "1,w,2\n2,w,3", TornTail::is_left_out);
  EXPECT_TRUE(file.torn_tail);
  ASSERT_EQ(file.rows.size(), 1u);
  EXPECT_EQ(file.rows[0].cells[0], "1");
}

TEST_F(CsvText, RefusesATornTailWhereItMayNot) {
  EXPECT_EQ(refusal(kCsvHeader + "1,w,2\n2,w,3"),
            ":3: expected a newline at the end of the last line, found '2,w,3'.");
}

TEST_F(CsvText, RefusesATornHeader) {
  EXPECT_THROW(read("step,na", TornTail::is_left_out), Error);
  EXPECT_THROW(read("step,name,value", TornTail::is_left_out), Error);
}

TEST_F(CsvText, RefusesAnEmptyFile) {
  EXPECT_EQ(refusal(""), ":1:1: expected the column 'step', found nothing.");
}

TEST_F(CsvText, RefusesAnotherHeader) {
  EXPECT_EQ(refusal("step,nmae,value\n"), ":1:2: expected the column 'name', found 'nmae'.");
  EXPECT_EQ(refusal("name,step,value\n"), ":1:1: expected the column 'step', found 'name'.");
  EXPECT_EQ(refusal("step,name\n"), ":1:3: expected the column 'value', found nothing.");
  EXPECT_EQ(refusal("step,name,value,unit\n"),
            ":1:4: expected the end of the header, found 'unit'.");
  EXPECT_EQ(refusal("\n"), ":1:1: expected the column 'step', found nothing.");
}

TEST_F(CsvText, RefusesRowsOfAnotherWidth) {
  EXPECT_EQ(refusal(kCsvHeader + "1,w,2\n1,w\n"),
            ":3:3: expected the cell 'value', found nothing.");
  EXPECT_EQ(refusal(kCsvHeader + "1,w,2,9\n"), ":2:4: expected 3 cells, found '9'.");
  EXPECT_EQ(refusal(kCsvHeader + "\n1,w,2\n"), ":2:2: expected the cell 'name', found nothing.");
}

TEST_F(CsvText, RefusesAQuoteThatIsNotClosed) {
  EXPECT_EQ(refusal(kCsvHeader + "1,\"w,2\n"),
            ":2:2: expected a closing quote on the same line, found '\"w,2'.");
}

TEST_F(CsvText, RefusesANewlineInsideACell) {
  EXPECT_EQ(refusal(kCsvHeader + "1,\"a\nb\",2\n"),
            ":2:2: expected a closing quote on the same line, found '\"a'.");
}

TEST_F(CsvText, RefusesQuotesWithinACell) {
  const std::string expected = ": expected quotes around a whole cell only, doubled inside, found ";
  EXPECT_EQ(refusal(kCsvHeader + "1,\"a\"b,2\n"), ":2:2" + expected + "'\"a\"b'.");
  EXPECT_EQ(refusal(kCsvHeader + "1,a\"b\",2\n"), ":2:2" + expected + "'a\"b\"'.");
  EXPECT_EQ(refusal(kCsvHeader + "1,w,\"a\"b\"c\"\n"), ":2:3" + expected + "'\"a\"b\"c\"'.");
}

TEST_F(CsvText, RefusesANulByte) {
  EXPECT_EQ(refusal(kCsvHeader + "1,w,2\n1,w" + std::string(1, '\0') + "x,2\n"),
            ":3: expected text, found '\\x00'.");
}

TEST_F(CsvText, RefusesALineThatIsTooLong) {
  const std::string expected = "expected a line of less than 16 MiB, found 'a longer one'.";
  EXPECT_EQ(refusal(kCsvHeader + "1," + std::string(1 << 24, 'w') + ",2\n"), ":2: " + expected);
  EXPECT_EQ(refusal(kCsvHeader + "1," + std::string(3 << 24, 'w') + ",2\n"), ":2: " + expected);
}

TEST_F(CsvText, RefusesWhatIsNoFile) {
  const auto why = [](const fs::path& path) -> std::string {
    try {
      read_csv(path, kind(TornTail::is_left_out), [](const CsvRow&) {});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(why(folder_).find("it is a folder"), std::string::npos) << why(folder_);
  EXPECT_NE(why(folder_ / "none").find("No such file"), std::string::npos);
  EXPECT_NE(why(path_ / "x").find("No such file"), std::string::npos);
}

TEST_F(CsvText, RefusesAFileThatMayNotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  read(kCsvHeader);
  ::chmod(path_.c_str(), 0);
  EXPECT_THROW(read_csv(path_, kind(TornTail::is_left_out), [](const CsvRow&) {}), Error);
}

CsvRow row_of(const std::string& cell) { return {4, 0, {"1", "w", cell}}; }

std::string number_refusal(const std::string& cell, bool whole) {
  try {
    whole ? static_cast<void>(to_int(row_of(cell), 2, "t.csv", kColumns))
          : static_cast<void>(to_double(row_of(cell), 2, "t.csv", kColumns));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CsvNumber, ReadsWholeNumbersExactly) {
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-7}, INT64_MIN, INT64_MAX}) {
    EXPECT_EQ(to_int(row_of(std::to_string(value)), 2, "t.csv", kColumns), value);
  }
}

TEST(CsvNumber, ReadsWhatIsNotFinite) {
  EXPECT_TRUE(std::isnan(to_double(row_of("nan"), 2, "t.csv", kColumns)));
  EXPECT_EQ(to_double(row_of("inf"), 2, "t.csv", kColumns), INFINITY);
  EXPECT_EQ(to_double(row_of("-inf"), 2, "t.csv", kColumns), -INFINITY);
}

TEST(CsvNumber, RefusesACellThatIsNotAWholeNumberToItsEnd) {
  for (const char* cell :
       {"", " 1", "1 ", "1.0", "x", "0x1", "+1", "--1", "1e3", "9223372036854775808"}) {
    EXPECT_NE(number_refusal(cell, true).find("t.csv:4:3: expected a whole number as 'value', "),
              std::string::npos)
        << cell;
  }
}

TEST(CsvNumber, RefusesACellThatIsNotANumberToItsEnd) {
  for (const char* cell : {"", " 1", "1 ", "1,5", "x", "1.5x", "+1", "1e", "1e999", "na"}) {
    EXPECT_NE(number_refusal(cell, false).find("t.csv:4:3: expected a number as 'value', "),
              std::string::npos)
        << cell;
  }
}

TEST(ExactDecimal, ReadsBackAsTheSameDouble) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const double back = to_double(row_of(exact_decimal(value)), 2, "t.csv", kColumns);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(value));
  }
}

TEST(ExactDecimal, IsTheShortest) {
  EXPECT_EQ(exact_decimal(0.1), "0.1");
  EXPECT_EQ(exact_decimal(static_cast<double>(0.1F)), "0.10000000149011612");
  EXPECT_EQ(exact_decimal(-0.0), "-0");
  EXPECT_EQ(exact_decimal(5e-324), "5e-324");
  EXPECT_EQ(exact_decimal(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
}

TEST(ExactDecimal, NamesWhatIsNotFinite) {
  EXPECT_EQ(exact_decimal(NAN), "nan");
  EXPECT_EQ(exact_decimal(-NAN), "nan");
  EXPECT_EQ(exact_decimal(INFINITY), "inf");
  EXPECT_EQ(exact_decimal(-INFINITY), "-inf");
}

TEST(CsvCell, EscapesWhatWouldBreakALine) {
  EXPECT_EQ(csv_cell("layer.0.weight"), "layer.0.weight");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(csv_cell("a\nb\r\t"), "a\\x0ab\\x0d\\x09");
  EXPECT_EQ(csv_cell("a\\x0a"), "a\\\\x0a");
  EXPECT_EQ(csv_cell(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(csv_cell("gr\xc3\xb6\xc3\x9f"
                     "e"),
            "gr\xc3\xb6\xc3\x9f"
            "e");
  EXPECT_EQ(csv_cell(""), "");
}

TEST(UnescapeCell, LeavesABackslashThatEscapesNothing) {
  for (const char* text : {"\\", "a\\b", "\\x", "\\x1", "\\xg0", "\\x0g", "\\n"}) {
    EXPECT_EQ(unescape_cell(text), text);
  }
  EXPECT_EQ(unescape_cell(std::string_view("\\x41", 3)), "\\x4")
      << "what lies behind it is not its own";
}

TEST_F(CsvText, GivesBackEveryTextThatWasEscaped) {
  std::mt19937 random(2);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  std::vector<std::string> texts{all, "\"", "\"\"", ",", "\\", "\\\\x41", "\\x41", "\n", " a "};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int k = 0; k < 6; ++k) text += "a,\"\\x0\n"[random() % 7];
    texts.push_back(text);
  }
  std::string file = kCsvHeader;
  for (const std::string& text : texts) file += "1," + csv_cell(text) + ",2\n";
  const File back = read(file);
  ASSERT_EQ(back.rows.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(unescape_cell(back.rows[i].cells[1]), texts[i]);
  }
}

TEST(CsvCell, EscapesWhatATerminalObeysAndGivesItBack) {
  const std::string text = "a\xc2\x9b\xe2\x80\xae\xc3\xa4\xff\x1b";
  const std::string cell = csv_cell(text);
  EXPECT_EQ(cell, "a\\xc2\\x9b\\xe2\\x80\\xae\xc3\xa4\xff\\x1b");
  EXPECT_EQ(unescape_cell(cell), text);
}

}  // namespace
}  // namespace lockstep
