#include "reports/base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace lockstep {

namespace {

// Insertions, deletions, replacements and swaps of neighbours count one each.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

// The only one of `known` that begins with `given`; a letter or two is no beginning.
std::string only_continuation(std::string_view given, const std::vector<std::string>& known) {
  constexpr std::size_t kLeast = 3;
  if (given.size() < kLeast) return {};
  std::string found;
  for (const std::string& name : known) {
    if (!name.starts_with(given)) continue;
    if (!found.empty()) return {};
    found = name;
  }
  return found;
}

}  // namespace

std::string nearest_name(std::string_view given, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 200;
  if (given.size() > kLongest) return {};
  std::string nearest;
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const std::string& name : known) {
    const std::size_t count = edits(given, name);
    const std::size_t allowed = std::max<std::size_t>(1, name.size() / 3);
    if (count <= allowed && count < given.size() && count < fewest) {
      fewest = count;
      nearest = name;
    }
  }
  return nearest.empty() ? only_continuation(given, known) : nearest;
}

}  // namespace lockstep
