#include "reports/formats/markdown_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

namespace lockstep {

Pieces leave_out(Pieces& pieces, std::size_t room) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return pieces[left].part < pieces[right].part;
  });
  std::vector<bool> is_kept(pieces.size());
  for (const std::size_t i : order) {
    is_kept[i] = pieces[i].text.size() <= room;
    if (is_kept[i]) room -= pieces[i].text.size();
  }
  Pieces kept;
  Pieces left_out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    (is_kept[i] ? kept : left_out).push_back(std::move(pieces[i]));
  }
  pieces = std::move(kept);
  return left_out;
}

std::string sentence_about(const Pieces& left_out) {
  if (left_out.empty()) return "";
  std::vector<std::string> counts;
  const auto count = [&](std::string_view one, std::string_view many, auto... parts) {
    const auto number = std::count_if(left_out.begin(), left_out.end(), [&](const Piece& piece) {
      return ((piece.part == parts) || ...);
    });
    if (number > 0) counts.push_back(fmt::format("{} {}", number, number > 1 ? many : one));
  };
  count("detail", "details", Part::wrong, Part::detail);
  count("table", "tables", Part::table);
  count("list of symptoms", "lists of symptoms", Part::matrix);
  count("other part", "other parts", Part::overview, Part::heading, Part::list, Part::extra);
  return fmt::format(
      "Left out for lack of room: {}. `record.json` has all of it, and `lockstep report DIR` "
      "prints it.\n\n",
      fmt::join(counts, ", "));
}

}  // namespace lockstep
