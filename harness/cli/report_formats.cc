#include "harness/cli/report_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "reports/base/error.h"

namespace lockstep {

namespace {

/// A word behind the list is none of the formats.
void add_formats(CLI::App& app, std::vector<std::string>& formats, const std::string& meaning) {
  app.add_option("--format", formats, meaning)
      ->type_name("FORMAT[,FORMAT...]")
      ->delimiter(',')
      ->allow_extra_args(false);
}

}  // namespace

void add_formats_of_files(CLI::App& app, std::vector<std::string>& formats) {
  add_formats(app, formats, "also write reports in these formats: " + formats_in_words());
}

void add_formats_to_print(CLI::App& app, std::vector<std::string>& formats) {
  add_formats(app, formats,
              "print in this format (" + formats_in_words() +
                  "); with --out also several, which are written there");
}

std::vector<const Renderer*> renderers_for(const std::vector<std::string>& formats,
                                           const std::string& out) {
  if (formats.size() > 1 && out.empty()) {
    throw bad_value("--format", fmt::format("{}", fmt::join(formats, ",")),
                    "one format, or several with --out DIR, where their files go");
  }
  return find_renderers(formats);
}

bool is_for_screen(const std::vector<const Renderer*>& renderers, const std::string& out) {
  return !out.empty() || renderers.empty() || renderers[0]->format == "console";
}

std::vector<std::string> report_files(const std::vector<const Renderer*>& renderers,
                                      const std::string& folder) {
  std::vector<std::string> files;
  for (const Renderer* renderer : renderers) {
    files.push_back((std::filesystem::path(folder) / renderer->file).string());
  }
  return files;
}

}  // namespace lockstep
