#pragma once

#include <cstdlib>
#include <string_view>

namespace lockstep {

/// A variable that only the loader and the C library of the catalogue program read.
struct StartVariable {
  const char* name;
  const char* value;
};

inline constexpr StartVariable kStartVariables[] = {
    // Binds torch's functions once, as Python does: otherwise every forked rank looks them up anew.
    {"LD_BIND_NOW", "lockstep"},
    // A fork copies an entry for every page, and torch's tables fill more than ten thousand small
    // ones.
    {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"},
};

/// In the program that becomes the catalogue. Values that a user gave are kept.
inline void set_start_variables() {
  for (const auto& [name, value] : kStartVariables) ::setenv(name, value, /*overwrite=*/0);
}

/// In the catalogue, before it starts anything: ranks and launchers have the user's variables.
inline void remove_start_variables() {
  for (const auto& [name, value] : kStartVariables) {
    const char* const found = std::getenv(name);
    if (found && std::string_view(found) == value) ::unsetenv(name);
  }
}

}  // namespace lockstep
