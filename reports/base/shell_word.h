#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `word` in a form that a shell reads back, quoted if necessary.
std::string shell_word(const std::string& word);

/// A command line, likewise.
std::string in_shell(const std::vector<std::string>& words);

}  // namespace lockstep
