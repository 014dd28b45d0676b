#include "harness/judge/ranks/exits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/ranks/progress.h"

namespace lockstep {

namespace {

/// The details of such an error follow its first sentence: the requested size, the free memory and
/// the part of the model.
constexpr std::string_view kOutOfMemory = "out of memory. ";

/// Lets `earliest`, null at first, be the exit in the lowest step.
void keep_earlier(const RankExit*& earliest, const RankExit& end) {
  if (!earliest || end.step < earliest->step) earliest = &end;
}

/// Whether a rank may have failed because of an earlier failure of another rank.
bool may_be_consequence(const CellEvidence& cell, const RankExit& end) {
  const bool was_ended = end.kind == ExitKind::unfinished && end.cause != ExitCause::stopped &&
                         end.cause != ExitCause::unseen;
  return was_ended || has_lost_peer(cell, end);
}

/// A rank that lost a peer, or waited for a failed one, is no culprit. If ranks only wait for each
/// other, all are culprits. The order of exits is ignored for a lost peer, because its connections
/// close before its exit can be seen.
bool is_consequence(const CellEvidence& cell, const RankExit& end,
                    const std::vector<const RankExit*>& failed) {
  const bool lost_peer = end.kind == ExitKind::raised;
  return may_be_consequence(cell, end) &&
         std::any_of(failed.begin(), failed.end(), [&](const RankExit* other) {
           // A later interruption is no reason.
           if (other->cause == ExitCause::interrupted && other->order > end.order) return false;
           if (lost_peer && other->kind == ExitKind::unfinished) return true;
           if (other->cause == ExitCause::stopped) return true;
           // The exit time of a rank without a report is unknown, and so are those in a job whose
           // launcher ended a rank because another one had failed.
           const bool is_before = other->cause == ExitCause::unseen || other->order < end.order ||
                                  end.cause == ExitCause::peer_failed;
           return !may_be_consequence(cell, *other) && (lost_peer || is_before);
         });
}

/// Whether this full stop ends a sentence: "e.g. this" continues.
bool ends_sentence(const std::string& line, std::size_t stop) {
  const auto next = line.find_first_not_of(' ', stop + 1);
  return next == std::string::npos ||
         (next > stop + 1 && !std::islower(static_cast<unsigned char>(line[next])));
}

}  // namespace

bool is_among(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

const RankExit* exit_of(const std::vector<RankExit>& exits, int rank) {
  const auto end =
      std::ranges::find_if(exits, [&](const RankExit& other) { return other.rank == rank; });
  return end == exits.end() ? nullptr : &*end;
}

bool has_lost_peer(const CellEvidence& cell, const RankExit& end) {
  if (end.cause != ExitCause::lost_peer) return false;
  const std::vector<Collective>* log =
      cell.evidence ? cell.evidence->collectives(end.rank) : nullptr;
  const bool is_recorded = log && !log->empty();
  return !is_recorded || std::any_of(log->begin(), log->end(), [](const Collective& call) {
    return call.state == CollectiveState::failed;
  });
}

std::vector<const RankExit*> culprits(const CellEvidence& cell) {
  if (was_training(cell)) return {};
  std::vector<const RankExit*> failed;
  for (const RankExit& end : cell.exits) {
    if (end.kind != ExitKind::finished) failed.push_back(&end);
  }
  std::vector<const RankExit*> found;
  for (const RankExit* end : failed) {
    const bool is_unknown =
        end->cause == ExitCause::interrupted || end->cause == ExitCause::elsewhere;
    const bool is_own = !is_unknown && !is_consequence(cell, *end, failed);
    if (is_own) found.push_back(end);
  }
  return found;
}

const RankExit* leaver(const CellEvidence& cell) {
  if (!cell.is_job) return nullptr;
  const RankExit* left = nullptr;
  const RankExit* lost = nullptr;
  for (const RankExit& end : cell.exits) {
    if (end.kind == ExitKind::finished) {
      keep_earlier(left, end);
    } else if (has_lost_peer(cell, end)) {
      keep_earlier(lost, end);
    } else {
      return nullptr;  // it may be the reason
    }
  }
  return left && lost && left->step <= lost->step ? left : nullptr;
}

std::string first_sentence(const std::string& text) {
  const auto begin = text.find_first_not_of(" \n");
  if (begin == std::string::npos) return "";
  std::string line = text.substr(begin, text.find('\n', begin) - begin);
  line = line.substr(0, line.find("Exception raised from"));
  if (line.find(kOutOfMemory) != std::string::npos) return line;
  for (auto stop = line.find('.'); stop != std::string::npos; stop = line.find('.', stop + 1)) {
    if (ends_sentence(line, stop)) line.resize(stop + 1);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

namespace {

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

/// Whether a word may be the name of a parameter or a module: "layers.1.mlp.weight".
bool is_name(std::string_view word) {
  constexpr std::size_t kShortest = 6;
  constexpr std::array<std::string_view, 7> kLibraries{"torch.", "http",  "www.", "python",
                                                       "numpy.", "self.", "docs."};
  constexpr std::array<std::string_view, 6> kFiles{".py", ".cpp", ".h", ".cc", ".cu", ".so"};
  const auto point = word.find('.');
  const bool is_long = word.size() >= kShortest && point != std::string_view::npos && point > 0;
  const auto begins_part = [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  if (!is_long || !begins_part(word.front()) || !begins_part(word[word.rfind('.') + 1]))
    return false;
  return std::ranges::none_of(kLibraries, [&](auto begin) { return word.starts_with(begin); }) &&
         std::ranges::none_of(kFiles, [&](auto end) { return word.ends_with(end); });
}

bool has_name(std::string_view sentence) {
  for (std::size_t begin = 0; begin < sentence.size(); ++begin) {
    std::size_t end = begin;
    while (end < sentence.size() && is_of_name(sentence[end])) ++end;
    std::string_view word = sentence.substr(begin, end - begin);
    while (word.ends_with('.')) word.remove_suffix(1);
    const bool is_of_path = end < sentence.size() && sentence[end] == '/';
    const bool follows_path = begin > 0 && sentence[begin - 1] == '/';
    if (!is_of_path && !follows_path && is_name(word)) return true;
    begin = std::max(begin, end);
  }
  return false;
}

/// The first sentence of a text after `begin` that has a name; empty: there is none.
std::string named_sentence(const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    std::string sentence = first_sentence(text.substr(begin));
    if (sentence.empty()) return "";
    if (has_name(sentence)) return sentence;
    begin = text.find(sentence, begin) + sentence.size();
  }
  return "";
}

/// "RuntimeError: " of a text that begins with it; empty: it does not.
std::string type_of(const std::string& text) {
  const auto colon = text.find(": ");
  const bool is_type = colon != std::string::npos && colon > 0 &&
                       std::all_of(text.begin(), text.begin() + std::ptrdiff_t(colon), is_of_name);
  return is_type ? text.substr(0, colon + 2) : "";
}

constexpr std::string_view kTraceback = "Traceback (most recent call last):\n";

/// The error after the last traceback in a text: "KeyError: 'image'\n". Empty: the text ends
/// before.
std::string error_within(const std::string& text) {
  std::size_t begin = text.rfind(kTraceback) + kTraceback.size();
  while (begin < text.size() && (text[begin] == ' ' || text[begin] == '\n')) {  // frames
    begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
  }
  return text.substr(begin);
}

/// ", in DataLoader worker process 1" of "KeyError: Caught KeyError in DataLoader worker
/// process 1."
std::string catcher_of(const std::string& text) {
  const std::string first = first_sentence(text);
  const std::size_t caught = first.find("Caught ");
  const std::size_t in = caught == first.npos ? first.npos : first.find(" in ", caught);
  if (in == first.npos) return "";
  return "," + first.substr(in, first.find_last_not_of('.') + 1 - in);
}

}  // namespace

std::string telling_sentences(const std::string& text) {
  constexpr std::size_t kMostRead = 10000;
  if (text.find(kTraceback) != text.npos) {
    const std::string within = error_within(text);
    if (within.empty()) return first_sentence(text);
    std::string error = telling_sentences(within);
    while (error.ends_with('.')) error.pop_back();
    return error + catcher_of(text);
  }
  std::string first = first_sentence(text);
  if (has_name(first)) return first;
  const std::string named = named_sentence(text.substr(0, kMostRead));
  if (named.empty()) return first;
  const std::string type = type_of(first);
  return fmt::format("{}{} {}", type, named, first.substr(type.size()));
}

}  // namespace lockstep
