#include "tests/parity/parity_scenario.h"

#include <utility>

namespace lockstep {

bool has(const Rank& rank, std::string_view word) {
  const std::string words = "+" + rank.cell().variant + "+";
  return words.find("+" + std::string(word) + "+") != std::string::npos;
}

Variant variant_of_words(std::initializer_list<std::string_view> words) {
  std::string name;
  for (const std::string_view word : words) {
    if (!name.empty() && !word.empty()) name.append("+");
    name.append(word);
  }
  return {name, Role::buggy, "as its name says"};
}

Scenario parity_scenario(std::string id, std::string summary, std::vector<Variant> variants,
                         std::function<void(Rank&)> body) {
  return {
      .id = std::move(id),
      .summary = std::move(summary),
      .provenance = {"tests", "none", "nothing", "nothing"},
      .worlds = {2, 3},
      .steps = 3,
      .axes = {},
      .variants = std::move(variants),
      .claims = {ranks_finish()},
      .tables = {},
      .expect = [](const Cell&) { return Expectation{}; },
      .body = std::move(body),
  };
}

}  // namespace lockstep
