#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "reports/error.h"

namespace lockstep {

/// What a reader says of the file at `path` behind its name; "accepted" where it refuses nothing.
template <class Read>
std::string refusal_of(const std::filesystem::path& path, const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    const std::string what = error.what();
    EXPECT_EQ(what.find(path.string()), 0U) << what;
    return what.substr(path.string().size());
  }
  return "accepted";
}

}  // namespace lockstep
