#include "reports/record/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "reports/formats/renderer.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_matrix.h"
#include "tests/reports/formats/literal_run.h"
#include "tests/reports/record/older_record.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
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

/// As after `report --format json` on an older program's record.
TEST(Json, ReadsBackARecordOfAnOlderVersionThatItWroteAgain) {
  const std::string text =
      read_text(LOCKSTEP_SOURCE_DIR "/tests/reports/formats/record-1.6.json", kLargestRecord);
  const RunRecord old = read_json(text, "record-1.6.json");
  EXPECT_EQ(render_json(read_json(render_json(old), "record.json")), render_json(old));
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

TEST(Json, ReadsANewerMinorVersionAndIgnoresItsFields) {
  EXPECT_EQ(refusal([](Json& json) {
              json["version"] = "2.8";
              json["cells"][0]["weather"] = {{"sunny", true}};
            }),
            "accepted");
}

TEST(Json, ReadsTheNamesOfTheOlderMajorVersion) {
  RunRecord run = comparable_run();
  Json document = as_of_1(Json::parse(render_json(run)), "1.6");
  for (CellRecord& cell : run.cells) cell.manifest.reset();  // added in 2.0
  EXPECT_EQ(read_json(document.dump(), "record.json"), run);
  document["cells"][0]["ends"][0].erase("ending");
  EXPECT_THAT(refusal([&](Json& json) { json = document; }),
              HasSubstr("cells[0].ends[0].ending: expected a value, found nothing"));
  EXPECT_THAT(refusal([&](Json& json) { json["version"] = "1.6"; }),
              HasSubstr("fingerprint: expected"));
}

TEST(Json, ReadsARecordOfAnOlderMinorVersion) {
  const std::string text =
      read_text(LOCKSTEP_SOURCE_DIR "/tests/reports/formats/record-1.0.json", kLargestRecord);
  const RunRecord run = read_json(text, "record-1.0.json");
  EXPECT_EQ(run.cells.size(), 7U);
  EXPECT_EQ(run.cells[0].cell.repetition, 1);
  EXPECT_FALSE(run.cells[0].exits[0].line.has_value());
  EXPECT_EQ(run.tables[0].spec.first_step, 1);
}

TEST(Json, ReadsARecordFromBeforeThereWereOutcomes) {
  const std::string text =
      read_text(LOCKSTEP_SOURCE_DIR "/tests/reports/formats/record-1.1.json", kLargestRecord);
  const RunRecord run = read_json(text, "record-1.1.json");
  EXPECT_EQ(run.cells.size(), 10U);
  EXPECT_EQ(run.cells[0].symptom, Symptom{});
  EXPECT_FALSE(run.cells[0].expectation.symptom.has_value());
  EXPECT_FALSE(run.cells[0].cost->memory.has_value());
}

TEST(Json, KnowsPublishedTablesByTheNamesThatOlderRecordsHave) {
  const std::string text =
      read_text(LOCKSTEP_SOURCE_DIR "/tests/reports/formats/record-1.4.json", kLargestRecord);
  ASSERT_THAT(text, HasSubstr("seed-002-gradients"));
  EXPECT_THAT(read_json(text, "record-1.4.json").cells.front().expectation.meets,
              ElementsAre("opentslm-49-gradients"));
}

/// `text` with the sentences of older programs in the words of this one.
std::string reworded(std::string text) {
  const std::pair<std::string, std::string> kWords[] = {
      {"the place where the variant parts", "the branch point"},
      {"It goes on until step 5, by up to 1e-300 there.",
       "Ranks still differ at step 5 (max 1e-300)."}};
  for (const auto& [old_words, words] : kWords) {
    for (std::size_t at; (at = text.find(old_words)) != text.npos;) {
      text.replace(at, old_words.size(), words);
    }
  }
  return text;
}

TEST(Json, ReadsARecordThatTheLastProgramOfTheOlderMajorVersionWrote) {
  const std::string text = reworded(
      read_text(LOCKSTEP_SOURCE_DIR "/tests/reports/formats/record-1.6.json", kLargestRecord));
  RunRecord expected = literal_run();
  expected.environment.digest = "lockstep-1";
  for (CellRecord& cell : expected.cells) {
    cell.manifest.reset();
    cell.steps = {};
    for (ClaimResult& result : cell.results) {
      for (Finding& finding : result.findings) finding.kind.reset();
    }
  }
  const RunRecord read = read_json(text, "record-1.6.json");
  EXPECT_EQ(render_json(read), render_json(expected));
}

TEST(Json, ReadsARecordFromBeforeFilesSaidWhoWroteThem) {
  const std::string text =
      read_text(LOCKSTEP_SOURCE_DIR "/tests/reports/formats/record-1.3.json", kLargestRecord);
  const RunRecord run = read_json(text, "record-1.3.json");
  EXPECT_EQ(run.cells.size(), 10U);
  EXPECT_FALSE(run.planned.has_value());
  EXPECT_FALSE(run.cells[0].exits[0].rows.has_value());
}

TEST(Json, DerivesWhyRanksEndedWhereAnOlderRecordDoesNotSaySo) {
  const std::string text =
      read_text(LOCKSTEP_SOURCE_DIR "/tests/reports/formats/record-1.4.json", kLargestRecord);
  const RunRecord run = read_json(text, "record-1.4.json");
  std::vector<ExitCause> causes;
  for (const CellRecord& cell : run.cells) {
    for (const RankExit& end : cell.exits) causes.push_back(end.cause);
  }
  EXPECT_EQ(std::count(causes.begin(), causes.end(), ExitCause::time_limit), 1);
  EXPECT_TRUE(run.planned.has_value());
}

TEST(Json, TellsDefaultsByTheFolderWhereAnOlderRecordDoesNotSaySo) {
  const RunRecord written = literal_matrix();
  Json document = as_of_1(Json::parse(render_json(written)), "1.4");
  for (Json& cell : document["cells"]) {
    for (Json& chosen : cell["cell"]["axes"]) chosen.erase("is_default");
  }
  const RunRecord read = read_json(document.dump(), "record.json");
  int defaults = 0;
  for (std::size_t i = 0; i < written.cells.size(); ++i) {
    const std::vector<AxisValue>& axes = written.cells[i].cell.axes;
    for (std::size_t j = 0; j < axes.size(); ++j) {
      EXPECT_EQ(read.cells[i].cell.axes[j].is_default, axes[j].is_default)
          << written.cells[i].folder << axes[j].axis;
      defaults += axes[j].is_default ? 1 : 0;
    }
  }
  EXPECT_GT(defaults, 10);
}

TEST(Json, DerivesWhatBecameOfCollectivesFromTheCommandOfAnOlderRecord) {
  const auto derived = [](const std::vector<std::string>& options) {
    RunRecord written = literal_run();
    written.command = {"lockstep", "run"};
    written.command.insert(written.command.end(), options.begin(), options.end());
    Json document = as_of_1(Json::parse(render_json(written)), "1.5");
    for (Json& cell : document["cells"]) cell["cell"].erase("collectives");
    return read_json(document.dump(), "record.json").cells.front().cell.collectives;
  };
  EXPECT_EQ(derived({}), Collectives::log);
  EXPECT_EQ(derived({"--collectives", "off"}), Collectives::off);
  EXPECT_EQ(derived({"--collectives=check"}), Collectives::check);
  EXPECT_EQ(derived({"--seed", "3", "--collectives"}), Collectives::log);
  EXPECT_EQ(derived({"--collectives", "nosuch"}), Collectives::log);
}

/// k=3 matches neither k=33 nor another axis whose name ends in k.
TEST(Json, TellsDefaultsByWholeNamesAndValues) {
  const auto are_default = [](const std::string& value, const std::string& folder) {
    RunRecord written = literal_run();
    written.cells.front().cell.axes = {{"k", value}, {"j", "1"}};
    written.cells.front().folder = folder;
    const Json document = as_of_1(Json::parse(render_json(written)), "1.4");
    const RunRecord read = read_json(document.dump(), "record.json");
    std::vector<bool> defaults;
    for (const AxisValue& chosen : read.cells.front().cell.axes) {
      defaults.push_back(chosen.is_default);
    }
    return defaults;
  };
  using Defaults = std::vector<bool>;
  EXPECT_EQ(are_default("3", "frozen-tower/a/w2-task=3"), (Defaults{true, true}));
  EXPECT_EQ(are_default("3", "frozen-tower/a/w2-k=33"), (Defaults{true, true}));
  EXPECT_EQ(are_default("33", "frozen-tower/a/w2-k=33"), (Defaults{false, true}));
  EXPECT_EQ(are_default("3", "frozen-tower/a/w2-k=3-j=1"), (Defaults{false, false}));
}

TEST(Json, KeepsDefaults) {
  const RunRecord written = literal_matrix();
  const RunRecord read = read_json(render_json(written), "record.json");
  EXPECT_TRUE(read.cells[0].cell.axes[0].is_default);   // optimizer=sgd
  EXPECT_FALSE(read.cells[0].cell.axes[1].is_default);  // view=on
}

TEST(Json, RefusesAnotherMajorVersionWithASentence) {
  for (const char* version : {"3.0", "0.9", "10.0", "1", "1.", "1.x", "2", "2.", "2.-1", "1.-3",
                              "2.2147483647", "1.99999999999", "2.0x", " 2.0", ""}) {
    EXPECT_THAT(refusal([&](Json& json) { json["version"] = version; }),
                HasSubstr("record.json: version: expected version 1.x or 2.x of the schema"))
        << version;
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
