#include "harness/listing/scenario_filter.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include "harness/listing/scenario_words.h"
#include "harness/plan/glob.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

std::string in_small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return in_small_letters(text).find(in_small_letters(part)) != std::string::npos;
}

/// The ids, then the classes, each once.
std::vector<std::string> known_words(const std::vector<Scenario>& scenarios) {
  std::vector<std::string> known;
  for (const Scenario& scenario : scenarios) known.push_back(scenario.id);
  for (const Scenario& scenario : scenarios) {
    const std::string name = class_of(scenario);
    if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
  }
  return known;
}

using Test = std::function<bool(const Scenario&)>;

Test test_of(const std::vector<Scenario>& scenarios, const std::string& word) {
  if (is_glob(word)) {
    return [&](const Scenario& scenario) {
      return matches_glob(word, scenario.id) || matches_glob(word, class_of(scenario));
    };
  }
  Test has_class = [&](const Scenario& scenario) { return class_of(scenario) == word; };
  if (std::any_of(scenarios.begin(), scenarios.end(), has_class)) return has_class;
  return [&](const Scenario& scenario) {
    return !word.empty() && (contains(scenario.id, word) || contains(scenario.summary, word));
  };
}

}  // namespace

ScenarioList filter_scenarios(const std::vector<Scenario>& scenarios,
                              const std::vector<std::string>& words) {
  std::vector<bool> is_selected(scenarios.size(), words.empty());
  for (const std::string& word : words) {
    const Test test = test_of(scenarios, word);
    bool has_any = false;
    for (std::size_t i = 0; i < scenarios.size(); ++i) {
      if (!test(scenarios[i])) continue;
      is_selected[i] = true;
      has_any = true;
    }
    if (!has_any) throw nothing_matches("scenario or class", word, known_words(scenarios));
  }
  ScenarioList selected;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    if (is_selected[i]) selected.push_back(&scenarios[i]);
  }
  return selected;
}

}  // namespace lockstep
