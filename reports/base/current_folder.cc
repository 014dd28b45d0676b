#include "reports/base/current_folder.h"

#include <filesystem>
#include <system_error>

#include "reports/base/usage_error.h"

namespace lockstep {

void require_current_folder() {
  std::error_code failure;
  static_cast<void>(std::filesystem::current_path(failure));
  if (failure)
    throw unreadable("the current folder", failure.message(), "Go to a folder that exists");
}

}  // namespace lockstep
