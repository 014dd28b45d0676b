#include "harness/pack/opened_run.h"

#include <system_error>

#include "harness/pack/archive.h"
#include "harness/record/run_folder.h"
#include "reports/base/error.h"
#include "reports/base/usage_error.h"

namespace lockstep {

OpenedRun::OpenedRun(const std::string& named) : folder_(run_folder_of(named)), shown_(folder_) {
  std::error_code failure;
  const bool is_pack =
      std::filesystem::exists(folder_, failure) && !std::filesystem::is_directory(folder_, failure);
  if (is_pack) folder_ = unpack(shown_, scratch_.emplace().path());
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
