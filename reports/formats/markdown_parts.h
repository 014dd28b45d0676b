#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// Kinds of pieces of the Markdown report; `extra`: costs and margins. If room is short, the first
/// kinds are kept.
enum class Part { overview, heading, wrong, matrix, table, detail, list, extra };

/// A piece of the report, shown as a whole or not at all.
struct Piece {
  Part part = Part::overview;
  std::string text;
};

using Pieces = std::vector<Piece>;

/// Removes the pieces that exceed `room` bytes from `pieces`, and returns them. A piece that is too
/// long does not displace shorter ones.
Pieces leave_out(Pieces& pieces, std::size_t room);

/// The number of omitted pieces and their location; empty if there are none.
std::string sentence_about(const Pieces& left_out);

}  // namespace lockstep
