#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/record/comparison.h"

namespace lockstep {

/// An answer in one sentence.
struct Answer {
  std::string word;  ///< "DIFFERENT", "UNDECIDED", "VOID", "NOTHING MATCHED"; empty: B equals A
  std::string text;  ///< "4 of 6 gradients differ in step 1, first that of ..."
};

Answer answer_of(const ComparedPair& diff);

/// The same as a text: "DIFFERENT: 4 of 6 gradients differ in step 1, first that of ...".
std::string verdict_in_words(const ComparedPair& diff);

/// A side (0 is A): "train.py, 2 ranks, 8 steps (runs/a)".
std::string side_in_words(const ComparedPair& diff, std::size_t which);

/// What else is to say beside the sides and the answer: what should be equal, the first step that
/// differs, names without a partner.
std::vector<std::string> details_of(const ComparedPair& diff);

/// The whole comparison as lines of text: the sides, what should be equal, the verdict, and the
/// first step that differs. A blank line is empty, a detail of the line above begins with two
/// blanks.
std::vector<std::string> lines_of(const ComparedPair& diff);

}  // namespace lockstep
