#include "reports/formats/markdown_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

bool opens_fold(const Piece& piece) { return !piece.closing.empty(); }

}  // namespace

Pieces leave_out(Pieces& pieces, std::size_t room) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return pieces[left].part < pieces[right].part;
  });
  std::vector<bool> is_kept(pieces.size());
  std::set<int> folds{0};
  for (const std::size_t i : order) {
    const Piece& piece = pieces[i];
    const std::size_t bytes = piece.text.size() + piece.closing.size();
    is_kept[i] = bytes <= room && (opens_fold(piece) || folds.contains(piece.fold));
    if (!is_kept[i]) continue;
    room -= bytes;
    if (opens_fold(piece)) folds.insert(piece.fold);
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
  const auto count = [&](std::string_view one, std::string_view many, auto is_one) {
    const auto number = std::count_if(left_out.begin(), left_out.end(), is_one);
    if (number > 0) counts.push_back(fmt::format("{} {}", number, number > 1 ? many : one));
  };
  const auto is_part = [](auto... parts) {
    return [=](const Piece& piece) { return !opens_fold(piece) && ((piece.part == parts) || ...); };
  };
  count("section", "sections", opens_fold);
  count("detail", "details", is_part(Part::wrong, Part::undecided, Part::detail));
  count("table", "tables", is_part(Part::table));
  count("list of symptoms", "lists of symptoms", is_part(Part::matrix));
  count("other part", "other parts",
        is_part(Part::overview, Part::heading, Part::chart, Part::list, Part::extra));
  return fmt::format("{} more in `report.html` (`lockstep report DIR --format html`): {}.\n\n",
                     left_out.size(), fmt::join(counts, ", "));
}

std::string text_of(const Pieces& pieces) {
  std::string text;
  std::string closing;
  int fold = 0;
  for (const Piece& piece : pieces) {
    if (piece.fold != fold) {
      text += std::exchange(closing, "");
      fold = piece.fold;
    }
    text += piece.text;
    if (opens_fold(piece)) closing = piece.closing;
  }
  return text + closing;
}

}  // namespace lockstep
