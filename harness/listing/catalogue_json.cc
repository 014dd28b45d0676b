#include "harness/listing/catalogue_json.h"

#include <nlohmann/json.hpp>

#include "harness/listing/scenario_words.h"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

Json json_of_axis(const Axis& axis) {
  return {{"name", axis.name}, {"values", axis.values}, {"default", axis.default_value}};
}

std::vector<std::string> sentences_of(const std::vector<Claim>& claims) {
  std::vector<std::string> sentences;
  for (const Claim& claim : claims) sentences.push_back(sentence(claim));
  return sentences;
}

Json json_of_expectation(const Expectation& expectation) {
  std::vector<std::string> raises;
  for (const ExpectedError& error : expectation.raises) raises.push_back(error.fragment);
  return {{"breaks", sentences_of(expectation.breaks)},
          {"raises", raises},
          {"not_triggered", expectation.not_triggered},
          {"meets", expectation.meets}};
}

Json json_of_variant(const Scenario& scenario, const Variant& variant) {
  std::vector<std::string> axes;
  for (const Axis* axis : axes_of(scenario, variant)) axes.push_back(axis->name);
  const Variant* const reference = reference_of(scenario, variant);
  Json sets = Json::object();
  for (const AxisValue& setting : variant.sets.values) sets[setting.axis] = setting.value;
  return {{"name", variant.name},
          {"role", name(variant.role)},
          {"summary", variant.summary},
          {"axes", axes},
          {"sets", sets},
          {"reference", reference ? Json(reference->name) : Json(nullptr)},
          {"claims", sentences_of(variant.claims)},
          {"expected", json_of_expectation(default_expectation(scenario, variant))}};
}

Json json_of_scenario(const Wanted& wanted) {
  const Scenario& scenario = *wanted.scenario;
  Json axes = Json::array();
  for (const Axis& axis : scenario.axes) axes.push_back(json_of_axis(axis));
  Json variants = Json::array();
  for (const Variant& variant : scenario.variants) {
    if (wanted.variants.contains(variant.name)) {
      variants.push_back(json_of_variant(scenario, variant));
    }
  }
  return {{"id", scenario.id},
          {"summary", scenario.summary},
          {"class", class_of(scenario)},
          {"source", scenario.source},
          {"provenance",
           {{"project", scenario.origin.project},
            {"link", scenario.origin.link},
            {"kept", scenario.origin.kept},
            {"left_out", scenario.origin.left_out}}},
          {"world_sizes", scenario.worlds},
          {"devices", names_of(scenario.devices)},
          {"steps", scenario.steps},
          {"axes", axes},
          {"claims", sentences_of(scenario.claims)},
          {"variants", variants}};
}

}  // namespace

std::string catalogue_as_json(const std::vector<Wanted>& wanted) {
  Json scenarios = Json::array();
  for (const Wanted& one : wanted) scenarios.push_back(json_of_scenario(one));
  const Json document{
      {"schema", "lockstep.catalogue"}, {"version", "1.0"}, {"scenarios", scenarios}};
  return document.dump(2) + "\n";
}

std::string catalogue_as_json(const ScenarioList& scenarios) {
  std::vector<Wanted> wanted;
  for (const Scenario* scenario : scenarios) {
    wanted.push_back({scenario, {}});
    for (const Variant& variant : scenario->variants) wanted.back().variants.insert(variant.name);
  }
  return catalogue_as_json(wanted);
}

}  // namespace lockstep
