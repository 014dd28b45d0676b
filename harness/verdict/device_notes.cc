#include "harness/verdict/device_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// "cuda" of "cuda:0".
std::string kind_of(const DeviceUse& use) { return use.device.substr(0, use.device.find(':')); }

/// "16 parameters", "head.weight and 3 more".
std::string parameters_in_words(const DeviceUse& use) {
  if (use.names.empty()) return counted(use.parameters, "parameter");
  const std::int64_t more = use.parameters - 1;
  return use.names.front() + (more > 0 ? fmt::format(" and {} more", more) : "");
}

/// "16 parameters of rank 0 as cuda:0".
std::string use_in_words(const DeviceUse& use) {
  return fmt::format("{} of {} as {}", parameters_in_words(use), ranks_in_words(use.ranks),
                     use.device);
}

/// A process that is one rank may use a GPU under two names; several ranks should each have one.
std::vector<std::string> shared_in_words(const std::vector<DeviceUse>& devices) {
  std::map<std::string, std::vector<const DeviceUse*>> users;
  for (const DeviceUse& use : devices) {
    if (!use.id.empty()) users[use.id].push_back(&use);
  }
  std::vector<std::string> notes;
  for (const auto& [id, uses] : users) {
    std::set<int> ranks;
    std::string text;
    for (const DeviceUse* const use : uses) {
      ranks.insert(use->ranks.begin(), use->ranks.end());
      text += (text.empty() ? "" : ", ") + use_in_words(*use);
    }
    if (ranks.size() < 2) continue;
    notes.push_back(fmt::format("{} hold parameters on one GPU ({}): {}",
                                ranks_in_words({ranks.begin(), ranks.end()}), id, text));
  }
  return notes;
}

/// By kind of device, the ranks that hold nearly all of their parameters there.
std::map<std::string, std::vector<int>> main_kinds(const std::vector<DeviceUse>& devices) {
  std::map<std::string, std::vector<int>> kinds;
  for (const DeviceUse& use : devices) {
    if (!use.names.empty()) continue;
    std::vector<int>& ranks = kinds[kind_of(use)];
    ranks.insert(ranks.end(), use.ranks.begin(), use.ranks.end());
  }
  for (auto& [kind, ranks] : kinds) std::sort(ranks.begin(), ranks.end());
  return kinds;
}

/// "rank 1 on cpu, ranks 0,2 on cuda".
std::string in_words(const std::map<std::string, std::vector<int>>& kinds) {
  std::string text;
  for (const auto& [kind, ranks] : kinds) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", ranks_in_words(ranks), kind);
  }
  return text;
}

/// What ranks hold on other kinds of device than `main`: the same parameters on one kind are one
/// use, whose device is the kind.
std::vector<DeviceUse> others_than(const std::string& main, const std::vector<DeviceUse>& devices) {
  std::vector<DeviceUse> others;
  for (const DeviceUse& use : devices) {
    const std::string kind = kind_of(use);
    if (use.names.empty() || kind == main) continue;
    const auto known = std::ranges::find_if(others, [&](const DeviceUse& other) {
      return other.device == kind && other.names == use.names && other.parameters == use.parameters;
    });
    DeviceUse& held = known == others.end() ? others.emplace_back() : *known;
    held.device = kind;
    held.parameters = use.parameters;
    held.names = use.names;
    held.ranks.insert(held.ranks.end(), use.ranks.begin(), use.ranks.end());
  }
  for (DeviceUse& held : others) std::sort(held.ranks.begin(), held.ranks.end());
  return others;
}

/// Parameters that some ranks hold on another kind of device than `all` hold most of theirs.
std::vector<std::string> apart_in_words(const std::vector<DeviceUse>& devices,
                                        const std::string& main, const std::vector<int>& all) {
  std::vector<std::string> notes;
  for (const DeviceUse& held : others_than(main, devices)) {
    std::vector<int> rest;
    std::ranges::set_difference(all, held.ranks, std::back_inserter(rest));
    if (rest.empty()) continue;
    notes.push_back(fmt::format("{} hold{} {} on {}, {} on {}", ranks_in_words(held.ranks),
                                held.ranks.size() == 1 ? "s" : "", parameters_in_words(held),
                                held.device, ranks_in_words(rest), main));
  }
  return notes;
}

}  // namespace

std::vector<std::string> device_notes(const std::vector<DeviceUse>& devices, bool are_copies) {
  std::vector<std::string> notes = shared_in_words(devices);
  const std::map<std::string, std::vector<int>> kinds = main_kinds(devices);
  if (kinds.size() > 1) {
    notes.push_back("ranks hold their parameters on devices of several kinds: " + in_words(kinds));
  } else if (are_copies && !kinds.empty()) {
    const auto& [main, all] = *kinds.begin();
    for (std::string& note : apart_in_words(devices, main, all)) notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace lockstep
