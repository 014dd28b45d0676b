#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The texts of a row, one a column. The last may be long.
using TextRow = std::vector<std::string>;

/// `text`, at most `width` columns of it; "..." stands for the rest.
std::string cut(const std::string& text, std::size_t width);

/// The rows in columns with two blanks between, each a line that is cut to `width`; absent: whole.
std::string cut_rows(const std::vector<TextRow>& rows, std::optional<std::size_t> width);

/// The rows in columns behind `indent` blanks, the last column wrapped to `width`; where too little
/// room is left for it, it stands in lines of its own.
std::string wrapped_rows(const std::vector<TextRow>& rows, std::size_t indent, std::size_t width);

}  // namespace lockstep
