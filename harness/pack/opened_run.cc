#include "harness/pack/opened_run.h"

#include <set>
#include <string>
#include <system_error>

#include "harness/pack/archive.h"
#include "harness/record/run_folder.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/usage_error.h"
#include "reports/record/json.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// Whether a file in the folder of an execution is one that a report reads.
bool is_read(const std::string& name) {
  return name.starts_with("rank-") || name.starts_with("collectives-") || name == "manifest.csv" ||
         name == "stall.json";
}

/// The folders that the record of a pack names. A record that cannot be read names none; `record`
/// says why.
std::set<fs::path> named_folders(const fs::path& pack) {
  std::set<fs::path> folders;
  try {
    const auto text = read_member(pack, "record.json", {.bytes_of_member = kLargestRecord});
    if (!text) return folders;
    const RunRecord run = read_json(*text, pack.string());
    const auto add = [&](const Execution& one) {
      folders.insert(fs::path(one.folder).lexically_normal());
    };
    for (const CellRecord& cell : run.cells) add(cell);
    for_each_attempt(run.jobs, [&](const JobRecord& job) {
      add(job);
      for (const JobPart& part : job.parts) {
        folders.insert(fs::path(part.folder).lexically_normal());
      }
    });
  } catch (const Error&) {
    folders.clear();
  }
  return folders;
}

/// Unpacks what a report reads. The archive may hold any number of other files.
fs::path unpack_run(const fs::path& pack, const fs::path& folder) {
  const std::set<fs::path> folders = named_folders(pack);
  return unpack(pack, folder, {}, [&](const fs::path& member) {
    if (member == "record.json" || member == kPackLabel) return true;
    return is_read(member.filename()) && folders.contains(member.parent_path());
  });
}

}  // namespace

OpenedRun::OpenedRun(const std::string& named) : folder_(run_folder_of(named)), shown_(folder_) {
  std::error_code failure;
  const bool is_pack =
      std::filesystem::exists(folder_, failure) && !std::filesystem::is_directory(folder_, failure);
  if (is_pack) folder_ = unpack_run(shown_, scratch_.emplace().path());
  label_ = read_label(folder_);
  if (is_pack && !label_) {
    throw unreadable(named, "it holds no pack.json, so it is no whole pack of Lockstep",
                     "Pack the run again");
  }
}

RunRecord OpenedRun::record() const {
  try {
    return load_record(folder_);
  } catch (const Error& error) {
    if (folder_ == shown_) throw;
    std::string text = error.what();
    const std::string folder = folder_.string();
    for (std::size_t at = 0; (at = text.find(folder, at)) != text.npos;) {
      text.replace(at, folder.size(), shown_.string());
      at += shown_.string().size();
    }
    throw Error(error.kind(), text);
  }
}

bool OpenedRun::has_files() const { return !label_ || label_->contents == PackContents::files; }

}  // namespace lockstep
