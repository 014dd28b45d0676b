#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "harness/judge/meetings.h"
#include "harness/judge/predicates.h"

namespace lockstep {

namespace {

/// The words of Gloo and the store when a peer is gone or does not come. They name nobody.
constexpr std::array<std::string_view, 8> kLossOfPeer{"Connection closed by peer",
                                                      "Connection reset by peer",
                                                      "Broken pipe",
                                                      "Read error [",
                                                      "Timed out waiting",
                                                      "wait timeout after",
                                                      "Connection was likely closed",
                                                      "Application timeout caused pair closure"};

/// What matters of such an error comes behind the first sentence: how much was wanted, what was
/// free, and for which part of the model.
constexpr std::string_view kOutOfMemory = "out of memory. ";

/// Whether a rank may have ended badly because another one did before.
bool may_be_consequence(const RankEnd& end) {
  return (end.ending == Ending::unfinished && !is_stopped(end)) ||
         (end.ending == Ending::raised && is_loss_of_peer(end.error));
}

/// A rank that lost a peer, or waited for one that had ended badly, is no culprit of its own. Ranks
/// that only wait for each other all are. The order of endings does not count for a lost peer: its
/// connections are closed before its end can be seen.
bool is_consequence(const RankEnd& end, const std::vector<const RankEnd*>& failed) {
  const bool lost_peer = end.ending == Ending::raised;
  return may_be_consequence(end) &&
         std::any_of(failed.begin(), failed.end(), [&](const RankEnd* other) {
           if (lost_peer && other->ending == Ending::unfinished) return true;
           if (is_stopped(*other)) return true;
           return !may_be_consequence(*other) && (lost_peer || other->order < end.order);
         });
}

/// Whether a sentence ends at this full stop: "e.g. this" goes on.
bool ends_sentence(const std::string& line, std::size_t stop) {
  const auto next = line.find_first_not_of(' ', stop + 1);
  return next == std::string::npos ||
         (next > stop + 1 && !std::islower(static_cast<unsigned char>(line[next])));
}

Finding finding_of(const Claim& claim, const RankEnd& end) {
  Finding finding;
  finding.claim = claim;
  finding.step = end.step;
  finding.last_step = end.step;
  finding.places = 1;
  finding.failure = RankFailure{end.rank, how(end), end.error, end.last_output, std::nullopt};
  finding.sentence = fmt::format("rank {} {}", end.rank, how(end));
  if (end.step > 0) finding.sentence += fmt::format(" in step {}", end.step);
  if (!end.error.empty()) finding.sentence += ": " + first_sentence(end.error);
  if (!finding.sentence.ends_with('.')) finding.sentence += ".";
  return finding;
}

bool is_among(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::string capitalised(std::string sentence) {
  sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
  return sentence;
}

/// Of the ranks that a missed meeting ended, the one whose words tell most: not those of a rank
/// that lost a peer.
const RankEnd* telling_victim(const Case& the_case, const MissedMeeting& missed) {
  const RankEnd* telling = nullptr;
  for (const RankEnd& end : the_case.ends) {
    if (end.ending == Ending::finished || !is_explained(missed, end, the_case)) continue;
    const bool has_words = end.ending != Ending::unfinished && !is_loss_of_peer(end.error);
    if (!telling || has_words) telling = &end;
    if (has_words) break;
  }
  return telling;
}

/// A meeting that ranks missed ended them: one finding, about those that did not come to it.
void add_meeting(const Case& the_case, const MissedMeeting& missed, ClaimResult& result) {
  const RankEnd* victim = telling_victim(the_case, missed);
  if (!victim) return;
  Finding finding = finding_of_meeting(result.claim, missed);
  finding.failure =
      RankFailure{victim->rank, how(*victim), victim->error, victim->last_output, std::nullopt};
  finding.sentence =
      capitalised(missed.sentence) + " " + capitalised(finding_of(result.claim, *victim).sentence);
  result.findings.push_back(std::move(finding));
}

}  // namespace

bool is_stopped(const RankEnd& end) {
  return end.ending == Ending::unfinished && end.detail.starts_with("stopped ");
}

bool is_loss_of_peer(const std::string& error) {
  return std::any_of(kLossOfPeer.begin(), kLossOfPeer.end(), [&](std::string_view fragment) {
    return error.find(fragment) != std::string::npos;
  });
}

std::vector<const RankEnd*> culprits(const std::vector<RankEnd>& ends) {
  std::vector<const RankEnd*> failed;
  for (const RankEnd& end : ends) {
    if (end.ending != Ending::finished) failed.push_back(&end);
  }
  std::vector<const RankEnd*> found;
  for (const RankEnd* end : failed) {
    if (!is_consequence(*end, failed)) found.push_back(end);
  }
  return found;
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

void judge_endings(const Case& the_case, ClaimResult& result) {
  if (the_case.ends.empty()) {
    result.reason = "not triggered: how the ranks ended is not known";
    return;
  }
  const std::size_t processes =
      the_case.evidence ? static_cast<std::size_t>(the_case.evidence->processes()) : 0;
  if (the_case.ends.size() < processes) {
    result.reason = fmt::format("how {} of {} ranks ended is not known",
                                processes - the_case.ends.size(), processes);
    return;
  }
  result.comparisons = static_cast<std::int64_t>(the_case.ends.size());
  const Meetings meetings = meetings_of(the_case);
  const std::optional<MissedMeeting>& missed = meetings.hang ? meetings.hang : meetings.missed;
  if (missed) add_meeting(the_case, *missed, result);
  for (const RankEnd* end : culprits(the_case.ends)) {
    if (missed && is_explained(*missed, *end, the_case)) continue;
    Finding finding = finding_of(result.claim, *end);
    if (missed && is_among(missed->culprits, end->rank)) {
      finding.sentence += " " + capitalised(missed->sentence);
    }
    result.findings.push_back(std::move(finding));
  }
  result.verdict = result.findings.empty() ? Verdict::holds : Verdict::violated;
}

}  // namespace lockstep
