#include "harness/observe/observer.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "reports/base/error.h"

namespace lockstep {

namespace {

/// Adds its lifetime to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(std::chrono::nanoseconds& sum) : sum_(sum) {}
  ~Stopwatch() { sum_ += std::chrono::steady_clock::now() - start_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::chrono::nanoseconds& sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Throws `failure` as an Error, without torch's stack.
[[noreturn]] void throw_as_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const c10::Error& error) {
    throw internal_error(error.what_without_backtrace());
  } catch (...) {
    throw caught_error();
  }
}

/// Prints the line about the failure, with its text up to a newline.
void say(int rank, std::int64_t step, const char* text) noexcept {
  const int length = static_cast<int>(std::strcspn(text, "\n"));
  if (step == 0) {
    std::fprintf(stderr, "lockstep: rank %d is not observed: %.*s\n", rank, length, text);
  } else {
    std::fprintf(stderr, "lockstep: rank %d is no longer observed, from step %lld on: %.*s\n", rank,
                 static_cast<long long>(step), length, text);
  }
}

}  // namespace

Observer::Observer(std::filesystem::path folder, int rank, ObservingOptions options) noexcept
    : rank_(rank) {
  attempt([&] { writer_.emplace(std::move(folder), rank, std::move(options)); });
}

void Observer::begin_step(std::int64_t step) noexcept {
  attempt([&] { writer_->begin_step(step); });
  step_ = step;
}

void Observer::begin_micro_batch(std::int64_t micro_batch) noexcept {
  attempt([&] { writer_->begin_micro_batch(micro_batch); });
}

void Observer::observe(Phase phase, Kind kind, std::span<const NamedTensor> tensors) noexcept {
  attempt([&] { writer_->observe(phase, kind, tensors); });
}

void Observer::observe(Phase phase, Kind kind, const NamedTensor& tensor) noexcept {
  observe(phase, kind, std::span(&tensor, 1));
}

void Observer::finish() noexcept {
  attempt([&] { writer_->finish(); });
}

void Observer::rethrow_failure() const {
  if (failure_) throw_as_error(failure_);
}

template <class Call>
void Observer::attempt(const Call& call) noexcept {
  if (failure_) return;
  const Stopwatch stopwatch(time_spent_);
  try {
    call();
  } catch (...) {
    give_up();
  }
}

/// Requires: called while an exception is handled.
void Observer::give_up() noexcept {
  failure_ = std::current_exception();
  rows_ = rows();
  writer_.reset();
  try {
    rethrow_failure();
  } catch (const std::exception& error) {  // memory for the Error may be missing, too
    say(rank_, step_, error.what());
  }
}

}  // namespace lockstep
