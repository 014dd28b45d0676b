// No format shows a secret, whichever field of a record holds it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reports/formats/annotations.h"
#include "reports/formats/renderer.h"
#include "reports/formats/screen.h"
#include "reports/record/json.h"
#include "reports/record/record_texts.h"
#include "reports/record/without_secrets.h"
#include "tests/reports/formats/filled_record.h"
#include "tests/reports/formats/literal_charts.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_run.h"
#include "tests/secret_forms.h"

namespace lockstep {
namespace {

RunRecord charted_with(const std::string& text) {
  Charts charts;
  charts.agreement.tensors = 1;
  charts.agreement.differing.push_back({.name = text, .groups = {{0}, {1}}, .runs = {{1, 1}}});
  charts.lanes = {text, {{{0}, {{1, 1, text, text, false}}}}, 0};
  RunRecord run = literal_charted_job(charts, 2);
  fill(run, text, Empty::stays);
  return run;
}

std::vector<RunRecord> records_with(const std::string& text) {
  std::vector<RunRecord> records{literal_run(), literal_jobs()};
  for (RunRecord& run : records) fill(run, text, Empty::is_filled);
  records.push_back(charted_with(text));
  return records;
}

/// All texts of a record, but for settings, whose values belong to their names.
std::vector<std::string> texts_of(RunRecord run) {
  std::vector<std::string> texts = run.command;
  for (JobRecord& job : run.jobs) job.configuration.clear();
  for_each_text(run, [&](std::string_view, const std::string& text) { texts.push_back(text); });
  return texts;
}

TEST(SecretRecord, IsShownByNoFormat) {
  for (const std::string& form : secret_forms()) {
    for (const RunRecord& run : records_with(form)) {
      for (const Renderer& renderer : renderers()) {
        EXPECT_FALSE(has_secret(renderer.render(run))) << renderer.format << ": " << form;
      }
    }
  }
}

TEST(SecretRecord, IsShownByNoScreenAndNoAnnotation) {
  for (const std::string& form : secret_forms()) {
    for (const RunRecord& run : records_with(form)) {
      for (const Verbosity verbosity :
           {Verbosity::verdict, Verbosity::overview, Verbosity::variants}) {
        Screen screen;
        screen.verbosity = verbosity;
        EXPECT_FALSE(has_secret(render_screen(run, screen))) << form;
      }
      EXPECT_FALSE(has_secret(annotations(run))) << form;
    }
  }
}

/// The values of settings and of variables belong to their names.
TEST(SecretRecord, MasksTheValuesOfSettingsAndVariablesByTheirNames) {
  RunRecord run = literal_jobs();
  run.jobs[0].configuration = {{"hub.api_key", "plain words", {0}}, {"AdamW.lr", "0.1", {0}}};
  run.environment.variables = {{"HF_TOKEN", "plain"}, {"RANK", "0"}};
  run.command = {"lockstep", "watch", "--", "train.py", "--api-key", "plain words"};
  const RunRecord masked = without_secrets(run);
  EXPECT_EQ(masked.jobs[0].configuration[0].value, "***");
  EXPECT_EQ(masked.jobs[0].configuration[1].value, "0.1");
  EXPECT_EQ(masked.environment.variables[0].second, "***");
  EXPECT_EQ(masked.environment.variables[1].second, "0");
  EXPECT_EQ(masked.command.back(), "***");
}

/// Names of tensors are compared, and keys of findings are made of texts.
TEST(SecretRecord, IsNoRecordWithTextsThatOnlyResembleSecrets) {
  for (const std::string& twin : harmless_twins()) {
    for (const RunRecord& run : records_with(twin)) {
      EXPECT_EQ(texts_of(without_secrets(run)), texts_of(run));
    }
  }
  for (const RunRecord& run : {literal_run(), literal_jobs()}) {
    EXPECT_EQ(texts_of(without_secrets(run)), texts_of(run));
  }
}

TEST(SecretRecord, IsMaskedOnceAndForAll) {
  for (const std::string& form : secret_forms()) {
    for (const RunRecord& run : records_with(form)) {
      const RunRecord masked = without_secrets(run);
      EXPECT_EQ(texts_of(without_secrets(masked)), texts_of(masked)) << form;
    }
  }
}

}  // namespace
}  // namespace lockstep
