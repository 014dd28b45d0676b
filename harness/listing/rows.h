#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The texts of a row, one per column. The last may be long.
using TextRow = std::vector<std::string>;

/// `text`, cut to at most `width` columns; "..." replaces the rest.
std::string cut(const std::string& text, std::size_t width);

/// The rows in columns separated by two blanks, each a line cut to `width`; absent: uncut.
std::string cut_rows(const std::vector<TextRow>& rows, std::optional<std::size_t> width);

/// The rows in columns after `indent` blanks, the last column wrapped to `width`. If the last
/// column has too little room, it gets separate lines.
std::string wrapped_rows(const std::vector<TextRow>& rows, std::size_t indent, std::size_t width);

}  // namespace lockstep
