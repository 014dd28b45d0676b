#include "harness/launch/launcher_command.h"

#include <string_view>
#include <utility>

#include "harness/launch/launcher.h"
#include "reports/base/error.h"

namespace lockstep {
namespace {

constexpr std::string_view kPlaceholder = "{ranks}";
constexpr std::string_view kBlank = " \t\r\n";

/// Reads one word, starting at the non-blank position `at`.
std::string read_word(const std::string& text, std::size_t& at) {
  std::string word;
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && at + 1 < text.size()) {
      word += text[++at];
    } else if (quote == 0 && kBlank.find(c) != kBlank.npos) {
      break;
    } else {
      word += c;
    }
  }
  if (quote != 0) throw bad_value("--launcher", text, "a command whose quotes are closed");
  return word;
}

}  // namespace

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  std::size_t at = text.find_first_not_of(kBlank);
  while (at < text.size()) {
    words.push_back(read_word(text, at));
    at = text.find_first_not_of(kBlank, at);
  }
  return words;
}

LauncherCommand::LauncherCommand(std::string text)
    : text_(std::move(text)), words_(split_words(text_)) {
  if (words_.empty() || text_.find(kPlaceholder) == text_.npos) {
    throw bad_value(
        "--launcher", text_,
        "a command with {ranks} in place of the number of ranks, as in 'mpirun -n {ranks}'");
  }
  const std::string program = find_program(words_.front());
  if (program.empty()) throw no_such_launcher(words_.front());
  words_.front() = program;
}

std::vector<std::string> LauncherCommand::words_for(int ranks) const {
  std::vector<std::string> words = words_;
  for (std::string& word : words) {
    for (auto at = word.find(kPlaceholder); at != word.npos; at = word.find(kPlaceholder)) {
      word.replace(at, kPlaceholder.size(), std::to_string(ranks));
    }
  }
  return words;
}

}  // namespace lockstep
