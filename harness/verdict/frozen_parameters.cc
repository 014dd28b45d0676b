#include "harness/verdict/frozen_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// Of a parameter. A rank may have several models of one class.
using DigestsOfRanks = std::map<int, std::set<std::string_view>>;

DigestsOfRanks digests_of(const std::vector<const FrozenParameter*>& rows,
                          const std::string FrozenParameter::*moment) {
  DigestsOfRanks digests;
  for (const FrozenParameter* const row : rows) {
    for (const int rank : row->ranks) digests[rank].insert(row->*moment);
  }
  return digests;
}

/// The first rank, and another one without a digest of it; empty: there is none, or one is unknown.
std::optional<std::pair<int, int>> ranks_apart(const DigestsOfRanks& digests) {
  const int first = digests.begin()->first;
  const std::set<std::string_view>& its = digests.begin()->second;
  for (const auto& [rank, own] : digests) {
    const bool is_common = std::ranges::any_of(
        own, [&](std::string_view one) { return one.empty() || its.contains(one); });
    if (!is_common && !its.contains("")) return std::pair(first, rank);
  }
  return std::nullopt;
}

/// Whether more than one rank has changed it: one alone may have a mean of the weights for all.
bool did_several_change(const std::vector<const FrozenParameter*>& rows) {
  std::set<int> ranks;
  for (const FrozenParameter* const row : rows) {
    if (row->first != row->last) ranks.insert(row->ranks.begin(), row->ranks.end());
  }
  return ranks.size() > 1;
}

/// Parameters of a model of which ranks have others.
struct Apart {
  std::size_t count = 0;
  std::string_view first;  ///< its name
  std::pair<int, int> ranks;
};

void add(std::string_view name, std::pair<int, int> ranks, Apart& apart) {
  if (apart.count++ == 0) apart = {1, name, ranks};
}

std::string in_words(const Apart& apart, std::size_t all) {
  return fmt::format("{} of {}, first {} (ranks {} and {} differ)", apart.count, all, apart.first,
                     apart.ranks.first, apart.ranks.second);
}

using Parameters = std::map<std::string_view, std::vector<const FrozenParameter*>>;

/// Of buffers, by name; empty: ranks have the same.
std::string buffers_apart_in_words(const Parameters& buffers) {
  Apart apart;
  for (const auto& [name, rows] : buffers) {
    if (const auto ranks = ranks_apart(digests_of(rows, &FrozenParameter::last))) {
      add(name, *ranks, apart);
    }
  }
  if (apart.count == 0) return "";
  return fmt::format(
      "buffers that are saved with the model differ between ranks after the last step: {}; `--also "
      "buffers` tells from which step on",
      in_words(apart, buffers.size()));
}

/// Parameters of models of a class that differ before the first step, or after the last one only.
std::pair<Apart, Apart> apart_in(const Parameters& parameters) {
  Apart first;
  Apart last;
  for (const auto& [name, rows] : parameters) {
    if (const auto ranks = ranks_apart(digests_of(rows, &FrozenParameter::first))) {
      add(name, *ranks, first);
    } else if (did_several_change(rows)) {
      const auto after = ranks_apart(digests_of(rows, &FrozenParameter::last));
      if (after) add(name, *after, last);
    }
  }
  return {first, last};
}

}  // namespace

std::vector<std::string> frozen_notes(const JobRecord& job) {
  if (job.coverage.compared < job.coverage.parameters) return {};  // ranks may divide these, too
  const bool do_differ = std::ranges::any_of(
      job.results, [](const ClaimResult& one) { return one.verdict == Verdict::violated; });
  std::map<std::string_view, Parameters> models;
  Parameters buffers;
  for (const FrozenParameter& one : job.frozen) {
    (one.is_buffer ? buffers : models[one.model])[one.name].push_back(&one);
  }
  std::vector<std::string> notes;
  for (const auto& [model, parameters] : models) {
    const auto [first, last] = apart_in(parameters);
    const std::string whose = model.empty() ? "that no optimizer steps"
                                            : fmt::format("of {} that no optimizer steps", model);
    if (first.count > 0 && !model.empty()) {  // others are observed before the first step
      notes.push_back(fmt::format(
          "parameters {} differ between ranks before the first step: {}. Those of a teacher or "
          "reference model should be the same",
          whose, in_words(first, parameters.size())));
    }
    if (last.count > 0 && !do_differ) {
      notes.push_back(fmt::format(
          "parameters {} were the same on all ranks before the first step, and differ after the "
          "last one: {}; several ranks have changed them",
          whose, in_words(last, parameters.size())));
    }
  }
  const std::string apart = buffers_apart_in_words(buffers);
  if (!apart.empty() && !do_differ && job.joined.empty()) notes.push_back(apart);
  return notes;
}

}  // namespace lockstep
