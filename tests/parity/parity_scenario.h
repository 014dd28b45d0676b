#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

/// Whether `word` is among those that the name of the cell's variant consists of.
bool has(const Rank& rank, std::string_view word);

/// The variant whose name is `words`, joined by "+"; empty ones are left out.
Variant variant_of_words(std::initializer_list<std::string_view> words);

/// A small training that a program of tests/parity runs too, for the variants of the same names.
/// That program compares the two sides; all that is claimed here is that the ranks finish.
Scenario parity_scenario(std::string id, std::string summary, std::vector<Variant> variants,
                         std::function<void(Rank&)> body);

}  // namespace lockstep
