#include "harness/listing/scenario_sheet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "harness/listing/rows.h"
#include "harness/listing/scenario_words.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kSheetIndent = 2;

std::string devices_in_words(const Scenario& scenario) {
  if (scenario.devices.size() == 1) return std::string(name(scenario.devices.front()));
  return fmt::format("{} (default: {})", fmt::join(names_of(scenario.devices), ", "),
                     name(scenario.devices.front()));
}

TextRow axis_row(const Axis& axis) {
  return {axis.name,
          fmt::format("{} (default: {})", fmt::join(axis.values, ", "), axis.default_value)};
}

std::string lines_of_claims(const std::vector<Claim>& claims, std::size_t width) {
  std::string text;
  for (const Claim& claim : claims) text += wrapped(sentence(claim), kSheetIndent, 2, width);
  return text;
}

/// The axes of a variant follow its summary, unless it depends on all.
std::string variant_table(const Scenario& scenario, std::size_t width) {
  std::vector<TextRow> rows;
  for (const Variant& variant : scenario.variants) {
    const std::string axes = scenario.axes.empty() ? "all" : axes_in_short(scenario, variant);
    rows.push_back({variant.name, std::string(name(variant.role)),
                    variant.summary + (axes == "all" ? "" : fmt::format(" [axes: {}]", axes))});
  }
  return wrapped_rows(rows, kSheetIndent, width);
}

std::string expectation_as_text(const Expectation& expectation, std::size_t width) {
  std::vector<TextRow> rows;
  for (const Claim& claim : expectation.breaks) rows.push_back({"breaks:", sentence(claim)});
  for (const ExpectedError& error : expectation.raises) rows.push_back({"raises:", error.fragment});
  if (expectation.not_triggered) rows.push_back({"is not triggered:", "no claim is decided"});
  for (const std::string& table : expectation.meets) rows.push_back({"meets:", table});
  if (rows.empty()) rows.push_back({"keeps:", "every claim"});
  return wrapped_rows(rows, kSheetIndent, width);
}

}  // namespace

std::string scenario_sheet(const Scenario& scenario, std::size_t width) {
  const Origin& origin = scenario.origin;
  std::string text = scenario.id + "\n" + wrapped(scenario.summary, kSheetIndent, 0, width) + "\n";
  text += wrapped_rows({{"Class:", class_of(scenario)},
                        {"From:", fmt::format("{}, {}", origin.project, origin.link)},
                        {"Kept:", origin.kept},
                        {"Left out:", origin.left_out},
                        {"Source:", scenario.source},
                        {"World sizes:", worlds_in_words(scenario)},
                        {"Devices:", devices_in_words(scenario)},
                        {"Steps:", std::to_string(scenario.steps)}},
                       kSheetIndent, width);
  if (!scenario.axes.empty()) {
    std::vector<TextRow> rows;
    for (const Axis& axis : scenario.axes) rows.push_back(axis_row(axis));
    text += "\nAxes, for --set AXIS=VALUE\n" + wrapped_rows(rows, kSheetIndent, width);
  }
  text += "\nClaims of a correct program\n" + lines_of_claims(scenario.claims, width);
  text += "\nVariants\n" + variant_table(scenario, width);
  return text + "\n" +
         wrapped(fmt::format("'show {}/VARIANT' shows the expectations of one.", scenario.id), 0, 0,
                 width);
}

std::string variant_sheet(const Scenario& scenario, const Variant& variant, std::size_t width) {
  const Variant* const reference = reference_of(scenario, variant);
  std::string text = fmt::format("{}/{} ({})\n", scenario.id, variant.name, name(variant.role)) +
                     wrapped(variant.summary, kSheetIndent, 0, width);
  if (reference) {
    text += "\n" + wrapped_rows({{"Compared with:", reference->name}}, kSheetIndent, width);
  }
  std::vector<TextRow> rows;
  for (const Axis* axis : axes_of(scenario, variant)) rows.push_back(axis_row(*axis));
  if (!rows.empty()) {
    text += "\nAxes, for --set AXIS=VALUE\n" + wrapped_rows(rows, kSheetIndent, width);
  }
  std::string sets;
  for (const AxisValue& setting : variant.sets.values) {
    sets += fmt::format("{}{}={}", sets.empty() ? "" : ", ", setting.axis, setting.value);
  }
  if (!sets.empty()) text += "\n" + wrapped_rows({{"Fixed:", sets}}, kSheetIndent, width);
  text += "\n" + wrapped(fmt::format("Expected with {} ranks{}", scenario.worlds.front(),
                                     rows.empty() ? "" : " and every axis at its default"),
                         0, 0, width);
  text += expectation_as_text(default_expectation(scenario, variant), width);
  if (!variant.claims.empty()) {
    text += "\nAdditional claims\n" + lines_of_claims(variant.claims, width);
  }
  return text;
}

}  // namespace lockstep
