#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Whether `word` is a shell pattern: '*', '?' or '[' occurs.
bool is_glob(std::string_view word);

/// Whether `name` matches the whole of `pattern`: '*' any characters, '?' one, "[a-c]" one of them.
/// Other words match only themselves.
bool matches_glob(const std::string& pattern, const std::string& name);

}  // namespace lockstep
