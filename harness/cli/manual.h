#pragma once

#include <string>

#include "harness/cli/command.h"

namespace CLI {
class App;
}

namespace lockstep {

/// With it the build asks for a page of the manual: `lockstep --man`, `lockstep --man run`.
inline constexpr const char* kManual = "--man";

/// The page of the program, or of a command that it implements, in roff: what `--help` says.
std::string manual_page(const CLI::App& app, const Command* command);

}  // namespace lockstep
