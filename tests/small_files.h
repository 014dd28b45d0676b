#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>

#include "reports/base/error.h"

namespace lockstep {

/// What `write` says where no file of this process may be larger than `bytes`, as on a full disk;
/// "nothing" where it goes through.
template <class Write>
std::string said_where_files_are_small(rlim_t bytes, const Write& write) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = bytes;
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string said = "nothing";
  try {
    write();
  } catch (const Error& error) {
    said = error.what();
  }
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  return said;
}

}  // namespace lockstep
