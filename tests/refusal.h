#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "reports/base/error.h"

namespace lockstep {

/// The reader's error for the file at `path`, without the leading path; "accepted" if there is
/// none.
template <class Read>
std::string refusal_of(const std::filesystem::path& path, const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    const std::string what = error.what();
    return what.starts_with(path.string()) ? what.substr(path.string().size()) : what;
  }
  return "accepted";
}

}  // namespace lockstep
