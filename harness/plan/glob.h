#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Whether `word` is a pattern as shells have them: '*', '?' or '[' occurs.
bool is_glob(std::string_view word);

/// Whether `name` matches the whole of `pattern`: '*' any characters, '?' one, "[a-c]" one of them.
/// A word that is no pattern matches itself.
bool matches_glob(const std::string& pattern, const std::string& name);

}  // namespace lockstep
