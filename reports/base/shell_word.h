#pragma once

#include <string>

namespace lockstep {

/// `word` in a form that a shell reads back, quoted if necessary.
std::string shell_word(const std::string& word);

}  // namespace lockstep
