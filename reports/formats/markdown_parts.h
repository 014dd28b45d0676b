#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// Kinds of pieces of a Markdown page; `chart`: of evidence; `extra`: costs and margins. If room is
/// short, the first kinds are kept.
enum class Part { overview, wrong, undecided, heading, chart, matrix, detail, table, list, extra };

/// A piece of a Markdown page, shown as a whole or not at all.
struct Piece {
  Part part = Part::overview;
  std::string text;
  int fold = 0;              ///< the fold that it is in; 0: none
  std::string closing = {};  ///< of a fold that the piece opens; written after its last piece
};

using Pieces = std::vector<Piece>;

/// Removes the pieces that exceed `room` bytes from `pieces`, and returns them. A piece that is too
/// long does not displace shorter ones. Without the piece that opens it, no piece of a fold is
/// kept. Requires: the piece that opens a fold is the first of it and of the kind that is kept
/// longest.
Pieces leave_out(Pieces& pieces, std::size_t room);

/// The number of omitted pieces and their location; empty if there are none.
std::string sentence_about(const Pieces& left_out);

/// The texts of all pieces, with the ends of their folds.
std::string text_of(const Pieces& pieces);

}  // namespace lockstep
