#include "harness/launch/interruption.h"

#include <signal.h>

#include <array>
#include <cstddef>
#include <ctime>

namespace lockstep {

namespace {

constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};

// Safe to use in a signal handler.
volatile sig_atomic_t noted_signal = 0;
timespec noted_at{};
std::chrono::milliseconds same_until{};
std::array<struct sigaction, kSignals.size()> previous{};
int depth = 0;

std::chrono::nanoseconds since(const timespec& begin) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec - begin.tv_sec) +
         std::chrono::nanoseconds(now.tv_nsec - begin.tv_nsec);
}

void restore() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &previous[i], nullptr);
  }
}

void note(int signal) {
  if (noted_signal == 0) {
    noted_signal = signal;
    ::clock_gettime(CLOCK_MONOTONIC, &noted_at);
  } else if (since(noted_at) >= same_until) {
    restore();
    ::raise(signal);
  }
}

}  // namespace

Interruption::Interruption(std::chrono::milliseconds same) {
  if (depth++ > 0) return;
  noted_signal = 0;
  same_until = same;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous[i]);
    if (previous[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interruption::~Interruption() {
  if (--depth > 0) return;
  restore();
  noted_signal = 0;
}

int Interruption::noted() { return noted_signal; }

}  // namespace lockstep
