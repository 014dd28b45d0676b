#include "harness/validate/reused_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "harness/pack/scratch_folder.h"
#include "harness/record/run_folder.h"
#include "harness/validate/git.h"
#include "reports/base/error.h"
#include "reports/base/secrets.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kFilesAtOnce = 500;

/// A file of an earlier run, where the state has it now; empty: nowhere.
std::string place_now(const std::string& file, const std::vector<std::string>& then,
                      const std::vector<std::string>& now) {
  for (std::size_t i = 0; i < std::min(then.size(), now.size()); ++i) {
    if (file.starts_with(then[i] + "/")) return now[i] + file.substr(then[i].size());
  }
  return "";
}

/// SHA-256 of files, as the hook has them.
std::map<std::string, std::string> digests_of(const std::vector<std::string>& files,
                                              const fs::path& scratch) {
  constexpr std::size_t kDigits = 64, kBlanks = 2;
  std::map<std::string, std::string> digests;
  for (std::size_t begin = 0; begin < files.size(); begin += kFilesAtOnce) {
    std::vector<std::string> words{"sha256sum", "--zero", "--"};
    const auto first = files.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto left = static_cast<std::ptrdiff_t>(std::min(kFilesAtOnce, files.size() - begin));
    words.insert(words.end(), first, first + left);
    std::istringstream lines(run_program(words, scratch, scratch / "digests").text);
    for (std::string line; std::getline(lines, line, '\0');) {
      if (line.size() < kDigits + kBlanks) continue;
      digests[line.substr(kDigits + kBlanks)] = line.substr(0, kDigits);
    }
  }
  return digests;
}

/// The first executed file that is another one now; empty: none is.
std::string first_changed(const JobExecution& then, const CodeState& state) {
  std::vector<std::string> files;
  for (const auto& [file, digest] : then.digests) {
    const std::string now = place_now(file, then.roots, state.sources);
    if (now.empty() || !fs::is_regular_file(now)) return file;
    files.push_back(now);
  }
  const ScratchFolder scratch;
  const auto digests = digests_of(files, scratch.path());
  auto file = files.begin();
  for (const auto& [name, digest] : then.digests) {
    const auto now = digests.find(*file++);
    if (now == digests.end() || now->second != digest) return name;
  }
  return "";
}

/// "torch is 2.11.0 now, and was 2.10.0"; empty: what both know is the same.
std::string other_version(const JobExecution& then, const JobExecution& now) {
  for (const auto& [name, version] : then.versions) {
    const auto found = now.versions.find(name);
    if (found == now.versions.end() || found->second == version) continue;
    return fmt::format("{} is {} now, and was {}", name, found->second, version);
  }
  if (then.devices != now.devices) return "it ran on other devices";
  return "";
}

std::string why_not(const RunRecord& run, const JobExecution& then, const ReuseTerms& terms) {
  if (run.jobs.size() != 1 || !all_finished(run.jobs[0].exits))
    return "it did not train to its end";
  if (!then.is_known || !terms.beside.is_known) return "nobody said which files it executed";
  if (run.command != mask_command(terms.command)) return "it is of another command";
  if (then.seed != terms.seed) return "it has another seed";
  const std::string commit = terms.state.commit.substr(0, 9);
  if (run.jobs[0].title.find(commit) == std::string::npos) return "it is of another commit";
  if (std::string other = other_version(then, terms.beside); !other.empty()) return other;
  const std::string changed = first_changed(then, terms.state);
  return changed.empty() ? "" : fmt::format("{} has changed", changed);
}

}  // namespace

ReusedRun reused_run(const fs::path& folder, const ReuseTerms& terms) {
  if (!fs::exists(folder / "record.json")) {
    return {std::nullopt, fmt::format("{} has no run", folder.string())};
  }
  try {
    RunRecord run = load_record(folder);
    const fs::path files =
        run.jobs.empty() ? folder : fs::absolute(folder) / run.jobs.front().folder;
    std::string why = why_not(run, read_execution(files), terms);
    if (!why.empty()) return {std::nullopt, std::move(why)};
    return {std::move(run), ""};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace lockstep
