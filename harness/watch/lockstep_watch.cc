#include "harness/watch/lockstep_watch.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <exception>
#include <span>
#include <string>

#include "harness/watch/blocked_signals.h"
#include "harness/watch/joined_job.h"
#include "harness/watch/rank_watch.h"
#include "harness/watch/termination.h"
#include "reports/base/error.h"

struct lockstep_watch : lockstep::RankWatch {
  using RankWatch::RankWatch;
};

namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

/// The result of `call`, or -1 if it throws: no exception leaves the library, and no signal.
template <class Call>
auto guarded(const Call& call) noexcept -> decltype(call()) {
  const lockstep::BlockedSizeSignal blocked;
  try {
    return call();
  } catch (const std::exception& error) {
    try {
      last_error() = error.what();
    } catch (...) {
      last_error().clear();
    }
  } catch (...) {
    last_error() = "an unknown exception";
  }
  return -1;
}

template <class Call>
int32_t done(const Call& call) noexcept {
  return guarded([&] {
    call();
    return int32_t{0};
  });
}

/// 1, with the reason, if no GPU measures.
template <class Call>
int32_t done_on_gpu(const Call& call) noexcept {
  return guarded([&] {
    try {
      call();
      return int32_t{0};
    } catch (const lockstep::gpu::Unavailable& reason) {
      last_error() = reason.what();
      return int32_t{1};
    }
  });
}

std::span<const lockstep_watch_value> values_of(const lockstep_watch_value* values, int64_t count) {
  return {values, static_cast<std::size_t>(count)};
}

template <std::size_t size>
void copy(const std::string& text, char (&buffer)[size]) {
  if (text.size() >= size) {
    throw lockstep::bad_value("the folder", text,
                              fmt::format("a path of less than {} bytes", size));
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
}

}  // namespace

int32_t lockstep_watch_interface(void) { return LOCKSTEP_WATCH_INTERFACE; }

const char* lockstep_watch_error(void) { return last_error().c_str(); }

int32_t lockstep_watch_create(const lockstep_watch_job* job, lockstep_watch_joined* joined) {
  return done([&] {
    const lockstep::JoinedJob found = lockstep::join_job(*job);
    copy(found.files.string(), joined->folder);
    copy(found.id, joined->job);
  });
}

int32_t lockstep_watch_begin_attempt(const char* folder) {
  return done([&] { lockstep::begin_attempt(folder); });
}

lockstep_watch* lockstep_watch_open(const lockstep_watch_options* options) {
  lockstep_watch* watch = nullptr;
  done([&] { watch = new lockstep_watch(*options); });
  return watch;
}

int32_t lockstep_watch_close(lockstep_watch* watch) {
  const int32_t result = done([&] { watch->close(); });
  delete watch;
  return result;
}

int64_t lockstep_watch_describe(lockstep_watch* watch, const lockstep_watch_tensor* tensor) {
  return guarded([&] { return watch->describe(*tensor); });
}

int32_t lockstep_watch_digest(const char* dtype, int32_t dimensions, const int64_t* shape,
                              const void* data, const int64_t* strides, char digest[33]) {
  return done([&] {
    const std::string text = lockstep::to_text(lockstep::digest_of_value(
        dtype, lockstep::Shape(shape, shape + dimensions), data, strides));
    std::memcpy(digest, text.c_str(), text.size() + 1);
  });
}

int32_t lockstep_watch_begin_step(lockstep_watch* watch, int64_t step) {
  return done([&] { watch->begin_step(step); });
}

int32_t lockstep_watch_observe(lockstep_watch* watch, const lockstep_watch_value* values,
                               int64_t count) {
  return done([&] { watch->observe(values_of(values, count)); });
}

int32_t lockstep_watch_observe_next(lockstep_watch* watch, const lockstep_watch_value* values,
                                    int64_t count) {
  return done([&] { watch->observe_next(values_of(values, count)); });
}

int32_t lockstep_watch_observe_on_gpu(lockstep_watch* watch, const lockstep_watch_value* values,
                                      int64_t count, void* stream) {
  return done_on_gpu([&] { watch->observe_on_gpu(values_of(values, count), stream); });
}

int32_t lockstep_watch_observe_next_on_gpu(lockstep_watch* watch,
                                           const lockstep_watch_value* values, int64_t count,
                                           void* stream) {
  return done_on_gpu([&] { watch->observe_next_on_gpu(values_of(values, count), stream); });
}

int32_t lockstep_watch_use_threads(lockstep_watch* watch, int32_t threads) {
  return done([&] { watch->use_threads(threads); });
}

int32_t lockstep_watch_keeps(const lockstep_watch* watch) { return watch->keeps() ? 1 : 0; }

int64_t lockstep_watch_thinned_segments(const lockstep_watch* watch, int64_t step) {
  return watch->thinned_segments(step);
}

int32_t lockstep_watch_observes(const lockstep_watch* watch, int64_t step) {
  return watch->observes(step) ? 1 : 0;
}

int32_t lockstep_watch_end_step(lockstep_watch* watch) {
  return done([&] { watch->end_step(); });
}

int32_t lockstep_watch_end(lockstep_watch* watch, const char* error) {
  return done([&] { watch->end(error); });
}

int32_t lockstep_watch_give_up(lockstep_watch* watch, const char* why) {
  return done([&] { watch->give_up(why); });
}

void lockstep_watch_delay_termination(void) { lockstep::delay_termination(); }

int32_t lockstep_watch_is_terminating(void) { return lockstep::is_terminating() ? 1 : 0; }

void lockstep_watch_allow_termination(void) { lockstep::allow_termination(); }
