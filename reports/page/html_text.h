#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Text from outside, in one line, for the content of an element or the value of an attribute in
/// quotes. Control characters are visible, and no character is markup. `most`: bytes before
/// escaping; " [...]" replaces the rest.
std::string in_html(std::string_view text, std::size_t most = 2000);

/// The same with its lines, for <pre>. The end is shown if it is longer than `most`.
std::string in_pre(std::string_view text, std::size_t most = 8000);

/// A command or key that the reader will want elsewhere: a script adds a button that copies it.
std::string copied_in_html(std::string_view text);

/// "ranks 0-3, 7": runs of three or more ranks become ranges; at most `most` ranges.
std::string ranks_in_short(const std::vector<int>& ranks, std::size_t most = 12);

/// A number with up to nine digits, as a float32 needs; "-" if it is not a number, "inf".
std::string number_in_html(double value);

}  // namespace lockstep
