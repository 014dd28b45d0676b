#include "harness/comm/mpi/mpi_thread.h"

#include <c10/util/Exception.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "harness/comm/mpi/mpi_check.h"
#include "harness/comm/mpi/mpi_reduction.h"

namespace lockstep {

namespace {

/// A peer that is about to call arrives within this many rounds; afterwards the thread yields the
/// core.
constexpr int kBusyRounds = 2'000;
constexpr std::chrono::microseconds kNap{50};

void initialise() {
  int is_initialised = 0;
  check_mpi(MPI_Initialized(&is_initialised), "MPI_Initialized");
  TORCH_CHECK(!is_initialised, "MPI was initialised by something else in this process");
  int level = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
  TORCH_CHECK(level >= MPI_THREAD_FUNNELED,
              "this MPI cannot be used in a process with threads (level ", level, ")");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

}  // namespace

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, words, &length);
  C10_THROW_ERROR(DistBackendError, c10::str(what, ": ", std::string(words, length)));
}

MpiThread& MpiThread::instance() {
  static MpiThread& thread = *new MpiThread;
  return thread;
}

MpiThread::MpiThread() {
  std::thread([this] { loop(); }).detach();
  run(initialise);
}

void MpiThread::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  has_jobs_.notify_one();
}

void MpiThread::run(const std::function<void()>& job) {
  std::packaged_task<void()> task(job);
  std::future<void> end = task.get_future();
  post([&task] { task(); });
  end.get();
}

bool MpiThread::finalize() {
  run([this] {
    if (!may_finalize_) return;
    free_mpi_types();
    check_mpi(MPI_Finalize(), "MPI_Finalize");
  });
  return may_finalize_;
}

std::deque<std::function<void()>> MpiThread::take_jobs() {
  std::unique_lock lock(mutex_);
  const auto has_jobs = [this] { return !jobs_.empty(); };
  if (polled_.empty()) {
    has_jobs_.wait(lock, has_jobs);
  } else if (idle_rounds_ > kBusyRounds) {
    has_jobs_.wait_for(lock, kNap, has_jobs);
  }
  return std::exchange(jobs_, {});
}

void MpiThread::poll_all() {
  // A task that ends may start others.
  std::vector<std::function<bool()>> polled = std::exchange(polled_, {});
  std::erase_if(polled, [this](const std::function<bool()>& poll) {
    const bool has_ended = !poll();
    if (has_ended) idle_rounds_ = 0;
    return has_ended;
  });
  std::move(polled.begin(), polled.end(), std::back_inserter(polled_));
}

void MpiThread::loop() {
  for (;;) {
    const auto jobs = take_jobs();
    for (const auto& job : jobs) job();
    idle_rounds_ = jobs.empty() ? idle_rounds_ + 1 : 0;
    poll_all();
    if (idle_rounds_ > 0) std::this_thread::yield();
  }
}

}  // namespace lockstep
