#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// What a piece of the Markdown report is; `extra`: costs and margins. Where there is no room for
/// all, the first of these are kept.
enum class Part { overview, heading, wrong, matrix, table, detail, list, extra };

/// A piece of the report, which is there as a whole or not at all.
struct Piece {
  Part part = Part::overview;
  std::string text;
};

using Pieces = std::vector<Piece>;

/// Takes out of `pieces` what `room` bytes do not hold, and returns it. A piece that is too long
/// does not keep shorter ones out.
Pieces leave_out(Pieces& pieces, std::size_t room);

/// How much of what was left out, and where it stands; empty for nothing.
std::string sentence_about(const Pieces& left_out);

}  // namespace lockstep
