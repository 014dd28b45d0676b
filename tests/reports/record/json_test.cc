#include "reports/record/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "reports/base/error.h"
#include "reports/formats/renderer.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_matrix.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// `literal_run` without NaN, which never compares equal.
RunRecord comparable_run() {
  RunRecord run = literal_run();
  run.tables[1].rows[4].entries[0].values[0] = -0.0;
  return run;
}

/// The reader's error for the record after `change`.
std::string refusal(const std::function<void(Json&)>& change) {
  Json document = Json::parse(render_json(comparable_run()));
  change(document);
  try {
    read_json(document.dump(), "record.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    return error.what();
  }
  return "accepted";
}

TEST(Json, ReadsBackEveryField) {
  const RunRecord run = comparable_run();
  EXPECT_EQ(read_json(render_json(run), "record.json"), run);
}

TEST(Json, ReadsBackEveryFieldOfJobs) {
  RunRecord run = literal_jobs();
  run.jobs[1].tables[1].rows[1].entries[0].values = {0.25};  // NaN never compares equal
  EXPECT_EQ(read_json(render_json(run), "record.json"), run);
}

/// A record whose attempts had attempts, and so on, would be read as deep as it is long.
TEST(Json, RefusesEarlierAttemptsOfAnEarlierAttempt) {
  RunRecord run = literal_jobs();
  JobRecord& earlier = run.jobs[0].earlier_attempts.at(0);
  earlier.earlier_attempts = {JobRecord(earlier)};
  try {
    read_json(render_json(run), "record.json");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("jobs[0].earlier_attempts[0].earlier_attempts: expected "
                                        "an empty array, found 'an array'"));
  }
}

TEST(Json, ReadsBackNumbersToTheLastBit) {
  RunRecord run;
  run.tables = {published_drift()};
  run.tables[0].rows[0].entries[0].values = {0.1,
                                             1e300,
                                             5e-324,
                                             std::numeric_limits<double>::max(),
                                             1.0 / 3,
                                             -1e-7,
                                             123456789012345680.0,
                                             std::numeric_limits<double>::infinity(),
                                             -std::numeric_limits<double>::infinity()};
  run.cells = {literal_buggy()};
  run.cells[0].cell.seed = std::numeric_limits<std::uint64_t>::max();
  run.cells[0].cell.steps = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(read_json(render_json(run), "record.json"), run);
}

TEST(Json, WritesWhatIsNotFiniteAsWords) {
  const std::string text = render_json(literal_run());
  EXPECT_THAT(text, HasSubstr("\"NaN\""));
  EXPECT_THAT(text, HasSubstr("\"Infinity\""));
  EXPECT_EQ(render_json(read_json(text, "record.json")), text);
}

TEST(Json, KeepsTheSignOfZero) {
  const RunRecord run = read_json(render_json(comparable_run()), "record.json");
  EXPECT_TRUE(std::signbit(run.tables[1].rows[4].entries[0].values[0]));
}

TEST(Json, KeepsControlCharactersAndReplacesInvalidUtf8) {
  RunRecord run = comparable_run();
  run.cells[0].exits[0].last_output = std::string("\0\n\x1b\x7f\"\\", 6);
  EXPECT_EQ(read_json(render_json(run), "record.json"), run);
  run.cells[0].exits[0].last_output = "a\xff\xc3(b";
  const RunRecord read = read_json(render_json(run), "record.json");
  EXPECT_EQ(read.cells[0].exits[0].last_output, "a\xef\xbf\xbd\xef\xbf\xbd(b");
}

TEST(Json, NamesThePlaceOfAWrongValue) {
  EXPECT_EQ(refusal([](Json& json) { json["cells"][0]["exits"][1]["code"] = "x"; }),
            "record.json: cells[0].exits[1].code: expected an integer, found '\"x\"'.");
  EXPECT_THAT(refusal([](Json& json) { json["cells"][0]["exits"][1]["code"] = 1.5; }),
              HasSubstr("cells[0].exits[1].code: expected an integer, found '1.5'"));
  EXPECT_THAT(refusal([](Json& json) { json["cells"][0]["exits"][1]["code"] = 1ULL << 40; }),
              HasSubstr("an integer from -2147483648 to 2147483647"));
  EXPECT_THAT(refusal([](Json& json) { json["cells"][0]["cell"]["seed"] = -1; }),
              HasSubstr("cells[0].cell.seed: expected an integer from 0 to 18446744073709551615"));
  EXPECT_THAT(refusal([](Json& json) { json["cells"][0]["verdict"] = "fine"; }),
              HasSubstr("cells[0].verdict: expected one of \"as expected\", "));
  EXPECT_THAT(refusal([](Json& json) { json["cells"][0]["duration_s"] = "nan"; }),
              HasSubstr("cells[0].duration_s: expected a number, \"NaN\", "));
  EXPECT_THAT(refusal([](Json& json) { json["cells"][0]["exits"] = 7; }),
              HasSubstr("cells[0].exits: expected an array, found '7'"));
  EXPECT_THAT(refusal([](Json& json) { json["environment"] = Json::array(); }),
              HasSubstr("environment: expected an object, found 'an array'"));
  EXPECT_THAT(refusal([](Json& json) { json["environment"]["variables"]["A"] = 1; }),
              HasSubstr("environment.variables.A: expected a string, found '1'"));
  EXPECT_THAT(refusal([](Json& json) { json["tables"][0]["rows"][0]["entries"][0]["synced"] = 1; }),
              HasSubstr("tables[0].rows[0].entries[0].synced: expected true or false"));
  EXPECT_THAT(refusal([](Json& json) { json = Json::array(); }),
              HasSubstr("record.json: expected an object"));
}

TEST(Json, RefusesANumberThatNoDoubleHoldsWithItsLine) {
  std::string text = render_json(literal_run());
  const std::size_t at = text.find("\"code\": 0");
  ASSERT_NE(at, std::string::npos);
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  text.replace(at, 9, "\"code\": 1e999");
  try {
    read_json(text, "record.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    EXPECT_THAT(error.what(), StartsWith("record.json:" + std::to_string(line) + ":"));
    EXPECT_THAT(error.what(), HasSubstr("expected a number that a float64 holds, found '1e999'."));
  }
}

TEST(Json, RequiresEveryField) {
  EXPECT_THAT(refusal([](Json& json) { json["cells"][0]["cell"].erase("backend"); }),
              HasSubstr("record.json: cells[0].cell.backend: expected a value, found nothing"));
  EXPECT_THAT(refusal([](Json& json) { json.erase("tables"); }), HasSubstr("record.json: tables:"));
}

TEST(Json, IgnoresAFieldThatItDoesNotKnow) {
  EXPECT_EQ(refusal([](Json& json) {
              json["cells"][0]["weather"] = {{"sunny", true}};
            }),
            "accepted");
}

TEST(Json, KeepsDefaults) {
  const RunRecord written = literal_matrix();
  const RunRecord read = read_json(render_json(written), "record.json");
  EXPECT_TRUE(read.cells[0].cell.axes[0].is_default);   // optimizer=sgd
  EXPECT_FALSE(read.cells[0].cell.axes[1].is_default);  // view=on
}

TEST(Json, RefusesAnotherVersionWithASentence) {
  EXPECT_EQ(refusal([](Json& json) { json["version"] = "2.0"; }),
            "record.json is a record of version '2.0', but this program reads version 1.0: use the "
            "Lockstep that wrote it, or record the run again.");
  for (const Json& version :
       {Json("0"), Json("0.9"), Json("1"), Json("1."), Json("1.1"), Json("1.x"), Json("1.0x"),
        Json(" 1.0"), Json("99999999999.0"), Json(0), Json(1.0), Json(1e300), Json(nullptr),
        Json::array({"1.0"}), Json{{"major", 1}}}) {
    // Nothing else of such a record is read.
    EXPECT_THAT(refusal([&](Json& json) {
                  json["version"] = version;
                  json.erase("cells");
                }),
                AllOf(StartsWith("record.json is a record of version '"),
                      HasSubstr("but this program reads version 1.0: ")))
        << version;
  }
  for (const bool is_empty : {false, true}) {
    EXPECT_THAT(refusal([&](Json& json) {
                  json.erase("version");
                  if (is_empty) json["version"] = "";
                }),
                StartsWith("record.json is a record without a version, but"));
  }
  EXPECT_THAT(refusal([](Json& json) { json["schema"] = "lockstep.watch"; }),
              HasSubstr("schema: expected \"lockstep.record\", found '\"lockstep.watch\"'"));
}

TEST(Json, NamesLineAndColumnOfWhatIsNotJson) {
  const auto what = [](const std::string& text) -> std::string {
    try {
      read_json(text, "record.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(what("{\n  \"a\": x\n}"), HasSubstr("record.json:2:8: expected JSON, found"));
  EXPECT_THAT(what(""), HasSubstr("record.json:1:1: expected JSON"));
  const std::string whole = render_json(comparable_run());
  for (std::size_t length = 0; length < whole.size() - 2; length += 1499) {
    EXPECT_THAT(what(whole.substr(0, length)), HasSubstr("expected JSON")) << length;
  }
}

}  // namespace
}  // namespace lockstep
