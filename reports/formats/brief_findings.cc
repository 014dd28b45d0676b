#include "reports/formats/brief_findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

std::string subject(const Claim& claim);

namespace {

constexpr std::size_t kMostOfASentence = 400;

using Findings = std::vector<const Finding*>;

/// Cut between words: without its end, a place in a source names no line.
std::string brief_sentence(const std::string& sentence) {
  if (sentence.size() <= kMostOfASentence) return sentence;
  const std::size_t blank = sentence.rfind(' ', kMostOfASentence);
  const bool has_words = blank != std::string::npos && blank > kMostOfASentence / 2;
  return beginning(sentence, has_words ? blank : kMostOfASentence);
}

bool is_about_agreement(const Finding& finding) { return is_about_agreement(finding.claim); }

/// Whether it is about values held by ranks; findings about memory are separate.
bool is_about_held_values(const Finding& finding) {
  return is_about_agreement(finding) || finding.claim.predicate == Predicate::equal_reference;
}

/// In the order of the training; differences between ranks first.
Findings value_findings(const Execution& execution) {
  Findings found;
  for (const ClaimResult& result : execution.results) {
    for (const Finding& finding : result.findings) {
      if (is_about_held_values(finding)) found.push_back(&finding);
    }
  }
  const auto moment = [](const Finding* finding) {
    return std::tuple(finding->step, finding->claim.phase, finding->claim.predicate);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Finding* a, const Finding* b) { return moment(a) < moment(b); });
  return found;
}

std::string_view attribution_in_words(GradientAttribution attribution) {
  switch (attribution) {
    case GradientAttribution::own:
      return "; each rank has its own gradient, never synchronised";
    case GradientAttribution::other_rank:
      return "; it is another rank's own gradient";
    case GradientAttribution::mixture:
      return "; it is a mean of different tensors";
  }
  return "";
}

std::string attribution_of(const Finding& root, const Findings& others) {
  if (root.attribution) return std::string(attribution_in_words(*root.attribution));
  for (const Finding* other : others) {
    const bool is_the_same = other->step == root.step && other->tensor == root.tensor &&
                             other->claim.kind == root.claim.kind && other->attribution;
    if (is_the_same) return std::string(attribution_in_words(*other->attribution));
  }
  return "";
}

std::string difference_between_ranks(const Finding& finding) {
  std::string text = fmt::format(
      "{} differ between ranks: {} in step {}, {} of {} elements, by up "
      "to {:.3g}",
      subject(finding.claim), finding.tensor, finding.step, finding.differing_elements,
      finding.elements, finding.worst_difference);
  if (finding.last_step > finding.step) {
    text += fmt::format("; still in step {}", finding.last_step);
    if (finding.last_worst_difference != 0) {
      text += fmt::format(" (max {:.3g})", finding.last_worst_difference);
    }
  }
  const std::string parties = parties_in_words(finding);
  return parties.empty() ? text : text + "; " + parties;
}

std::string ratio_in_words(const Finding& finding) {
  if (finding.multiple) return "; ratio " + in_words(*finding.multiple);
  if (finding.attribution) return "; " + finding.attribution_in_words;
  if (!finding.ratio || !finding.cosine) return "";
  return fmt::format("; ratio {:.4g}, cosine {:.4g}", *finding.ratio, *finding.cosine);
}

std::string difference_from_reference(const Finding& finding) {
  std::vector<int> ranks;
  for (const std::vector<int>& group : finding.groups) {
    ranks.insert(ranks.end(), group.begin(), group.end());
  }
  std::string text = fmt::format("{} differ from the reference: {} in step {}",
                                 subject(finding.claim), finding.tensor, finding.step);
  if (!ranks.empty()) text += " on " + ranks_in_words(ranks);
  if (!finding.relative_difference || !std::isfinite(*finding.relative_difference)) return text;
  text += fmt::format(", relative difference {:.3g}", *finding.relative_difference);
  if (finding.tolerance) text += fmt::format(", tolerance {:.2g}", *finding.tolerance);
  return text + ratio_in_words(finding);
}

/// Without a difference of elements, the finding is about a dtype or shape, and its sentence is
/// enough.
std::string first_wrong_value(const Finding& root, const Findings& others) {
  if (!root.first_difference) return brief_sentence(root.sentence);
  const std::string text =
      is_about_agreement(root) ? difference_between_ranks(root) : difference_from_reference(root);
  return text + attribution_of(root, others);
}

std::string names_of(const Findings& findings, const Finding& root) {
  std::vector<std::string> names;
  for (const Finding* finding : findings) {
    const bool is_later = finding->step != root.step;
    names.push_back(subject(finding->claim) +
                    (is_later ? fmt::format(" from step {} on", finding->step) : ""));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Whether exactly the values that differ between ranks differ from the reference, from the same
/// steps on.
bool are_the_same(const Findings& apart, const Findings& off) {
  return apart.size() == off.size() &&
         std::all_of(apart.begin(), apart.end(), [&](const Finding* finding) {
           return std::any_of(off.begin(), off.end(), [&](const Finding* other) {
             return other->step == finding->step && other->claim.kind == finding->claim.kind &&
                    other->claim.phase == finding->claim.phase;
           });
         });
}

std::string off_in_words(const Finding& root, Findings apart, const Findings& off) {
  apart.insert(apart.begin(), &root);
  if (!are_the_same(apart, off)) return "; different from the reference: " + names_of(off, root);
  const std::string_view all = apart.size() == 1 ? "they" : apart.size() == 2 ? "both" : "all";
  return fmt::format("; {} also differ from the reference", all);
}

/// "; also: parameters; both also differ from the reference": all broken claims except the first.
std::string besides(const Finding& root, const Findings& others) {
  Findings apart;
  Findings off;
  for (const Finding* other : others) (is_about_agreement(*other) ? apart : off).push_back(other);
  std::string text;
  const Findings& alike = is_about_agreement(root) ? apart : off;
  if (!alike.empty()) text += "; also: " + names_of(alike, root);
  if (is_about_agreement(root)) {
    if (!off.empty()) text += off_in_words(root, apart, off);
  } else if (!apart.empty()) {
    text += "; different between ranks: " + names_of(apart, root);
  }
  return text;
}

/// The first wrong value of an execution as one finding; none if no value is known to be wrong.
std::vector<ShownFinding> wrong_values(const Execution& execution) {
  Findings found = value_findings(execution);
  if (found.empty()) return {};
  const Finding* const root = found.front();
  found.erase(found.begin());
  std::string text = first_wrong_value(*root, found);
  if (text.ends_with('.')) text.pop_back();
  return {{root, text + besides(*root, found)}};
}

std::vector<ShownFinding> brief(const Execution& execution, std::vector<ShownFinding> shown) {
  std::vector<ShownFinding> all = wrong_values(execution);
  for (ShownFinding& other : shown) {
    if (is_about_held_values(*other.finding)) continue;
    other.sentence = brief_sentence(other.sentence);
    const bool has_output = other.finding->failure && other.finding->failure->error.empty() &&
                            !other.finding->failure->last_output.empty();
    if (!other.sentence.empty() || has_output) all.push_back(std::move(other));
  }
  return all;
}

}  // namespace

std::vector<ShownFinding> brief_findings(const CellRecord& cell) {
  return brief(cell, shown_findings(cell));
}

std::vector<ShownFinding> brief_findings(const JobRecord& job) {
  return brief(job, shown_findings(job));
}

}  // namespace lockstep
