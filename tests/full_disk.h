#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

namespace lockstep {

/// Simulates a full disk: while it exists, no file of this process grows beyond `bytes`.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : previous_action_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &previous_), 0);
    const rlimit limit{bytes, previous_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FullDisk() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &previous_), 0);
    std::signal(SIGXFSZ, previous_action_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit previous_{};
  void (*previous_action_)(int);
};

}  // namespace lockstep
