#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

/// The variant that sets each of `words` to "on", and is called by them, joined by "+". A word may
/// be empty, or several that are joined so.
Variant variant_of_words(std::initializer_list<std::string_view> words);

/// A small training that a program of tests/parity repeats, with variants of the same names. That
/// program compares the two sides; the scenario itself only claims that the ranks finish.
Scenario parity_scenario(std::string summary, std::vector<Variant> variants,
                         std::function<void(Rank&)> body);

}  // namespace lockstep
