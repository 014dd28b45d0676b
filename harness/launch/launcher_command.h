#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Splits `text` into words like a shell: at blanks, with "...", '...' and \ but no other syntax.
/// Throws Error (usage) for an unclosed quote.
std::vector<std::string> split_words(const std::string& text);

/// A launcher given by `--launcher`: "mpirun -n {ranks}".
class LauncherCommand {
 public:
  /// Throws Error (usage) when it has no words, no `{ranks}`, or its program cannot be found.
  explicit LauncherCommand(std::string text);

  const std::string& text() const { return text_; }

  /// The command line for `ranks` ranks; the first word is the path of the program.
  std::vector<std::string> words_for(int ranks) const;

 private:
  std::string text_;
  std::vector<std::string> words_;
};

}  // namespace lockstep
