#include "tests/parity/parity_scenario.h"

#include <sstream>
#include <utility>

namespace lockstep {

Variant variant_of_words(std::initializer_list<std::string_view> words) {
  std::string name;
  for (const std::string_view word : words) {
    if (!name.empty() && !word.empty()) name.append("+");
    name.append(word);
  }
  Variant variant{name, Role::buggy, "as its name says"};
  std::istringstream split(name);
  for (std::string word; std::getline(split, word, '+');) {
    variant.sets.values.push_back({word, "on"});
  }
  return variant;
}

Scenario parity_scenario(std::string summary, std::vector<Variant> variants,
                         std::function<void(Rank&)> body) {
  return {
      .summary = std::move(summary),
      .variants = std::move(variants),
      .worlds = {2, 3},
      .steps = 3,
      .axes = {},
      .claims = {ranks_finish()},
      .tables = {},
      .expect = [](const Cell&) { return Expectation{}; },
      .body = std::move(body),
  };
}

}  // namespace lockstep
