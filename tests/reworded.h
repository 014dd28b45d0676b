#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "reports/record/record_texts.h"

namespace lockstep {

/// Fields that hold sentences for people: of Lockstep, of a framework or of whoever wrote the job.
inline constexpr std::array<std::string_view, 21> kSentences{"attribution_in_words",
                                                             "cause",
                                                             "command_error",
                                                             "detail",
                                                             "error",
                                                             "failure",
                                                             "faults",
                                                             "how",
                                                             "hyperparameters",
                                                             "last_output",
                                                             "notes",
                                                             "place",
                                                             "precisions",
                                                             "promise",
                                                             "reason",
                                                             "sentence",
                                                             "text",

                                                             "tolerance_from",
                                                             "undecidable",
                                                             "unsealed",
                                                             "why"};

/// A part of a record in which every sentence is another one, and no two are the same. Verdicts
/// must not depend on them.
template <class Value>
Value reworded(Value value) {
  int number = 0;
  for_each_text(value, [&](std::string_view field, std::string& text) {
    const bool is_sentence =
        std::find(kSentences.begin(), kSentences.end(), field) != kSentences.end();
    if (is_sentence && !text.empty()) text = fmt::format("reworded {}", ++number);
  });
  return value;
}

}  // namespace lockstep
