#include "reports/base/name_pattern.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kShownNames = 3;
constexpr std::size_t kMostParts = 12;  ///< of a name; longer ones have no pattern

using Parts = std::vector<std::string>;

bool fits(const std::string& pattern, const std::vector<std::string>& names,
          const std::vector<std::string>& others) {
  const auto is_match = [&](const auto& name) { return matches(pattern, name); };
  return std::ranges::all_of(names, is_match) && std::ranges::none_of(others, is_match);
}

/// How many parts all names have in common, from the front or from the back.
std::size_t common_parts(const std::vector<Parts>& names, bool is_back) {
  std::size_t common = names.front().size();
  for (const Parts& parts : names) {
    const Parts& first = names.front();
    std::size_t same = 0;
    while (same < std::min(common, parts.size()) &&
           (is_back ? parts[parts.size() - 1 - same] == first[first.size() - 1 - same]
                    : parts[same] == first[same])) {
      ++same;
    }
    common = same;
  }
  return common;
}

/// Parts of the first name that all have.
std::set<std::string_view> shared_parts(const std::vector<Parts>& names) {
  std::set<std::string_view> shared(names.front().begin(), names.front().end());
  for (const Parts& parts : names) {
    std::erase_if(shared, [&](std::string_view part) {
      return std::ranges::find(parts, part) == parts.end();
    });
  }
  return shared;
}

std::string join(Parts::const_iterator begin, Parts::const_iterator end) {
  return fmt::format("{}", fmt::join(begin, end, "."));
}

/// "*", "a.*", "a.b.*", of a name whose first parts others have, too.
std::vector<std::string> heads_of(const Parts& name, std::size_t common) {
  std::vector<std::string> heads{"*"};
  for (std::size_t count = 1; count <= common; ++count) {
    heads.push_back(join(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(count)) + ".*");
  }
  return heads;
}

/// "", ".w", ".b.w", of one whose last parts others have.
std::vector<std::string> tails_of(const Parts& name, std::size_t common) {
  std::vector<std::string> tails{""};
  for (std::size_t count = 1; count <= common; ++count) {
    tails.push_back("." + join(name.end() - static_cast<std::ptrdiff_t>(count), name.end()));
  }
  return tails;
}

/// "", ".a.*" and ".a": what may be between, before an end or before none.
std::vector<std::string> middles_of(const std::vector<Parts>& names) {
  std::vector<std::string> middles{""};
  for (const std::string_view part : shared_parts(names)) {
    middles.push_back(fmt::format(".{}.*", part));
    middles.push_back(fmt::format(".{}", part));
  }
  return middles;
}

/// Patterns that may fit: a beginning, a part in the middle and an end, each or none.
std::set<std::string> candidates(const std::vector<Parts>& names) {
  const Parts& first = names.front();
  std::set<std::string> patterns;
  for (const std::string& head : heads_of(first, common_parts(names, false))) {
    for (const std::string& middle : middles_of(names)) {
      for (const std::string& tail : tails_of(first, common_parts(names, true))) {
        patterns.insert(fmt::format("{}{}{}", head, middle, tail));
      }
    }
  }
  return patterns;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  // Each part between stars is matched as early as possible, which leaves the most text for the
  // others.
  for (pattern.remove_prefix(star + 1); (star = pattern.find('*')) != pattern.npos;
       pattern.remove_prefix(star + 1)) {
    const std::size_t place = name.find(pattern.substr(0, star));
    if (place == name.npos) return false;
    name.remove_prefix(place + star);
  }
  return name.ends_with(pattern);
}

std::string pattern_of(const std::vector<std::string>& names,
                       const std::vector<std::string>& others) {
  if (names.size() < 2) return "";
  std::vector<Parts> parts;
  for (const std::string& name : names) parts.push_back(split(name, '.'));
  if (std::ranges::any_of(parts, [](const Parts& one) { return one.size() > kMostParts; })) {
    return "";
  }
  std::string shortest;
  for (const std::string& pattern : candidates(parts)) {
    const bool is_shorter = shortest.empty() || pattern.size() < shortest.size();
    if (is_shorter && fits(pattern, names, others)) shortest = pattern;
  }
  return shortest;
}

std::string module_of(std::string_view tensor) {
  const std::size_t dot = tensor.rfind('.');
  return dot == tensor.npos ? "" : std::string(tensor.substr(0, dot));
}

std::string share_in_words(const std::vector<std::string>& names,
                           const std::vector<std::string>& others) {
  const std::size_t all = names.size() + others.size();
  if (others.empty() && all > 1) return fmt::format("all {}", all);
  std::string share = fmt::format("{} of {}", names.size(), all);
  if (names.size() < 2) return share;
  const std::string pattern = pattern_of(names, others);
  if (!pattern.empty()) return fmt::format("{}, all {}", share, pattern);
  return fmt::format("{}: {}", share, listed(names, kShownNames));
}

}  // namespace lockstep
