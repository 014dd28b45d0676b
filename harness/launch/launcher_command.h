#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The words of `text` as a shell would see them: split at blanks, with "...", '...' and \ honoured
/// and nothing else. Throws Error (usage) for a quote that is not closed.
std::vector<std::string> split_words(const std::string& text);

/// A launcher as `--launcher` names it: "mpirun -n {ranks}".
class LauncherCommand {
 public:
  /// Throws Error (usage) when it has no word, no `{ranks}`, or no program that can be found.
  explicit LauncherCommand(std::string text);

  const std::string& text() const { return text_; }

  /// The words that start `ranks` ranks; the first is the path of the program.
  std::vector<std::string> words_for(int ranks) const;

 private:
  std::string text_;
  std::vector<std::string> words_;
};

}  // namespace lockstep
