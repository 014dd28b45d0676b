#include "harness/cli/pack_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "harness/cli/bytes_in_words.h"
#include "harness/cli/option_values.h"
#include "harness/cli/standard_output.h"
#include "harness/pack/pack_run.h"
#include "harness/record/run_folder.h"
#include "reports/base/plain_text.h"
#include "reports/base/shell_word.h"

namespace lockstep {

namespace {

struct PackWords {
  std::string run;
  std::string out;
  bool is_findings_only = false;
  std::vector<std::string> redact;
};

void add_pack_options(CLI::App& app, PackWords& words) {
  app.add_option("RUN", words.run, "folder of the run")->required()->type_name("");
  app.add_option("-o,--out", words.out, "the file (default: <folder>.lockstep.tar.gz here)")
      ->type_name("FILE")
      ->check(complaint_if_empty);
  app.add_flag("--findings-only", words.is_findings_only,
               "pack the record with its results, and no file of a rank");
  app.add_option("--redact", words.redact,
                 "replace names of tensors, groups, functions and files, and parts of texts, that "
                 "match; may be given several times")
      ->type_name("REGEX")
      ->check(complaint_if_empty)
      ->allow_extra_args(false);
}

std::string names_in_words(std::size_t names) {
  if (names == 0) return "";
  return names == 1 ? ", a name replaced" : fmt::format(", {} names replaced", names);
}

ExitStatus pack(const PackWords& words) {
  const WrittenPack pack = pack_run(
      {run_folder_of(words.run), words.out,
       words.is_findings_only ? PackContents::findings : PackContents::files, words.redact});
  const std::string file = plain(pack.file.string());
  write_standard_output(fmt::format("{}: {}{}\nRead it: lockstep report {}\n", file,
                                    bytes_in_words(pack.bytes), names_in_words(pack.masked_names),
                                    plain(shell_word(pack.file.string()))));
  return ExitStatus::as_expected;
}

}  // namespace

Command pack_command() {
  auto words = std::make_shared<PackWords>();
  return {"pack", [words](CLI::App& app) { add_pack_options(app, *words); },
          [words] { return pack(*words); }};
}

}  // namespace lockstep
