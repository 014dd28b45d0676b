#include "harness/judge/ranks/exits.h"

#include <algorithm>
#include <cctype>
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
           // The exit time of a rank without a report is unknown.
           const bool is_before = other->cause == ExitCause::unseen || other->order < end.order;
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

const RankExit* exit_of(const CellEvidence& cell, int rank) {
  const auto end = std::find_if(cell.exits.begin(), cell.exits.end(),
                                [&](const RankExit& other) { return other.rank == rank; });
  return end == cell.exits.end() ? nullptr : &*end;
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

}  // namespace lockstep
