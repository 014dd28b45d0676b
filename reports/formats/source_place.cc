#include "reports/formats/source_place.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep {

namespace {

/// The first known site of `ranks` in a row.
std::string site_of(const CollectiveRow& row, const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    const auto i = static_cast<std::size_t>(rank);
    if (i < row.calls.size() && !row.calls[i].site.empty()) return row.calls[i].site;
  }
  return "";
}

}  // namespace

SourcePlace place_of(std::string_view text) {
  const std::size_t colon = text.find_last_not_of("0123456789");
  const bool has_line =
      colon != std::string_view::npos && text[colon] == ':' && colon + 1 < text.size();
  if (!has_line) return {std::string(text), ""};
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

SourcePlace place_of(const JobRecord& job) {
  if (!job.mismatch) return {};
  const CollectiveMismatch& mismatch = *job.mismatch;
  for (const CollectiveRow& row : mismatch.rows) {
    if (row.number != mismatch.number) continue;
    const std::string site = site_of(row, mismatch.culprits);
    return place_of(site.empty() ? site_of(row, mismatch.waiting) : site);
  }
  return {};
}

}  // namespace lockstep
