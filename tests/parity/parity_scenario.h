#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

/// Whether `word` is one of the words in the name of the cell's variant.
bool has(const Rank& rank, std::string_view word);

/// The variant named by `words`, joined by "+"; empty ones are omitted.
Variant variant_of_words(std::initializer_list<std::string_view> words);

/// A small training that a program of tests/parity repeats, with variants of the same names. That
/// program compares the two sides; the scenario itself only claims that the ranks finish.
Scenario parity_scenario(std::string id, std::string summary, std::vector<Variant> variants,
                         std::function<void(Rank&)> body);

}  // namespace lockstep
