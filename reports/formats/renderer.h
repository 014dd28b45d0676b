#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// One format of the report. A renderer is a pure function of the record: no clock, no environment,
/// no terminal.
struct Renderer {
  std::string format;   ///< name on the command line
  std::string file;     ///< its name in the run's folder
  std::string summary;  ///< one line for `--help`
  std::function<std::string(const RunRecord&)> render;
  bool has_charts = false;  ///< it shows `Execution::charts`, if the judge filled them
};

/// All formats, by name. The table of renderers is in renderer.cc; one file each.
const std::vector<Renderer>& renderers();

/// Whether one of them shows charts.
bool has_charts(const std::vector<const Renderer*>& chosen);

/// The renderer called `format`. Throws Error (usage) with the nearest name.
const Renderer& find_renderer(const std::string& format);
std::vector<const Renderer*> find_renderers(const std::vector<std::string>& formats);

/// The names of all formats.
std::vector<std::string> format_names();

/// The same for `--help`: "console, csv, ...".
std::string formats_in_words();

/// Tables in the published layout, findings in sentences, the detection table. At most 100 columns
/// if the data allow it.
std::string render_console(const RunRecord& run);

/// One header; one line per cell, symptom, claim of a cell and value of a table.
std::string render_csv(const RunRecord& run);

/// One HTML page that loads nothing: the verdict, findings with their evidence, charts with the
/// same numbers in tables, the detection table, the environment. It can be read without script.
/// Text from outside is never markup.
std::string render_html(const RunRecord& run);

/// A suite per scenario, a case per cell, for the test pages of CI systems; valid by the schema
/// junit-10.xsd. FAILED and NOT FOUND are failures, UNDECIDED is an error; `message` is the cause.
std::string render_junit(const RunRecord& run);

/// The keys of all findings, a line each: a file for `--known`.
std::string render_keys(const RunRecord& run);

/// One verdict, and the findings with kinds and keys, for scripts: docs/formats.md.
std::string render_summary(const RunRecord& run);

/// A page of GitHub's Markdown (markdown_page.h) that fits in a comment: at most 60000 characters.
std::string render_markdown(const RunRecord& run);

/// The same page in the size of the summary of a job: at most 900 KiB.
std::string render_github(const RunRecord& run);

}  // namespace lockstep
