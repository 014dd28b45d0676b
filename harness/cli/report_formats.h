#pragma once

#include <string>
#include <vector>

#include "reports/formats/renderer.h"

namespace CLI {
class App;
}

namespace lockstep {

/// Adds `--format` of a command that writes files into the folder of its run.
void add_formats_of_files(CLI::App& app, std::vector<std::string>& formats);

/// Adds `--format` of a command that prints, or writes files with `--out`.
void add_formats_to_print(CLI::App& app, std::vector<std::string>& formats);

/// The formats of a command that prints one, or writes several into the folder `out`. Throws Error
/// (usage).
std::vector<const Renderer*> renderers_for(const std::vector<std::string>& formats,
                                           const std::string& out);

/// Whether the screen shows the run: in none of them, or as well.
bool is_for_screen(const std::vector<const Renderer*>& renderers, const std::string& out);

/// Their files in `folder`.
std::vector<std::string> report_files(const std::vector<const Renderer*>& renderers,
                                      const std::string& folder);

}  // namespace lockstep
