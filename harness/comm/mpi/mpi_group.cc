#include "harness/comm/mpi/mpi_group.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <utility>

#include "harness/comm/mpi/mpi_check.h"

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

/// Exchanges the calls of all ranks: one message to each peer, so that a missing rank can be named.
class Exchange {
 public:
  Exchange(const MpiCall& own, int rank, int size, MPI_Comm comm)
      : own_(own), rank_(rank), words_(to_words(own)), received_(static_cast<std::size_t>(size)) {
    const int most = static_cast<int>(most_words(size));
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      auto& words = received_[static_cast<std::size_t>(peer)];
      words.resize(static_cast<std::size_t>(most));
      peers_.push_back(peer);
      requests_.emplace_back();
      check_mpi(MPI_Irecv(words.data(), most, MPI_INT64_T, peer, 0, comm, &requests_.back()),
                "MPI_Irecv");
    }
    for (const int peer : peers_) {
      sends_.emplace_back();
      check_mpi(MPI_Isend(words_.data(), static_cast<int>(words_.size()), MPI_INT64_T, peer, 0,
                          comm, &sends_.back()),
                "MPI_Isend");
    }
  }

  bool is_done() {
    for (std::size_t i = 0; i < peers_.size(); ++i) receive(i);
    int are_sent = 1;
    if (!sends_.empty()) {
      check_mpi(MPI_Testall(static_cast<int>(sends_.size()), sends_.data(), &are_sent,
                            MPI_STATUSES_IGNORE),
                "MPI_Testall");
    }
    return are_sent && absent().empty();
  }

  std::vector<int> absent() const {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (requests_[i] != MPI_REQUEST_NULL) ranks.push_back(peers_[i]);
    }
    return ranks;
  }

  std::vector<MpiCall> calls() const {
    std::vector<MpiCall> calls;
    for (std::size_t rank = 0; rank < received_.size(); ++rank) {
      calls.push_back(static_cast<int>(rank) == rank_ ? own_ : from_words(received_[rank]));
    }
    return calls;
  }

 private:
  void receive(std::size_t i) {
    if (requests_[i] == MPI_REQUEST_NULL) return;
    int is_here = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&requests_[i], &is_here, &status), "MPI_Test");
    if (!is_here) return;
    int words = 0;
    check_mpi(MPI_Get_count(&status, MPI_INT64_T, &words), "MPI_Get_count");
    received_[static_cast<std::size_t>(peers_[i])].resize(static_cast<std::size_t>(words));
  }

  MpiCall own_;
  int rank_;
  std::vector<std::int64_t> words_;
  std::vector<std::vector<std::int64_t>> received_;  ///< by rank
  std::vector<int> peers_;
  std::vector<MPI_Request> requests_;  ///< one per peer; null once its call has arrived
  std::vector<MPI_Request> sends_;
};

std::string text_of(const std::exception& failure) {
  const auto* const error = dynamic_cast<const c10::Error*>(&failure);
  return error ? error->what_without_backtrace() : failure.what();
}

/// Whether it is complete; then `finish` has run.
bool has_finished(const MpiTask& task, MPI_Request& request) {
  int is_done = 0;
  MPI_Status status;
  check_mpi(MPI_Test(&request, &is_done, &status), "MPI_Test");
  if (!is_done) return false;
  if (task.call.operation == c10d::OpType::RECVANYSOURCE) task.work->set_source(status.MPI_SOURCE);
  if (task.finish) task.finish(status);
  return true;
}

MPI_Comm duplicate_of_world() {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return comm;
}

}  // namespace

struct MpiGroup::Collective {
  MpiTask task;
  Clock::time_point start = Clock::now();
  std::optional<Exchange> exchange = {};
  bool is_started = false;
  MPI_Request request = MPI_REQUEST_NULL;
};

struct MpiGroup::Message {
  MpiTask task;
  Clock::time_point start = Clock::now();
  MPI_Request request = MPI_REQUEST_NULL;
};

std::shared_ptr<MpiGroup> MpiGroup::create() {
  const std::shared_ptr<MpiGroup> group(new MpiGroup);
  MpiThread::instance().run([&] { group->open(); });
  return group;
}

void MpiGroup::open() {
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  collectives_ = duplicate_of_world();
  exchanges_ = duplicate_of_world();
  messages_ = duplicate_of_world();
}

void MpiGroup::submit(MpiTask task) {
  MpiThread::instance().post([group = shared_from_this(), task = std::move(task)]() mutable {
    group->accept(std::move(task));
  });
}

void MpiGroup::abandon() {
  MpiThread::instance().post([group = shared_from_this()] {
    if (group->failure_.empty()) group->break_group("this rank has left the group", nullptr);
  });
}

bool MpiGroup::leave(std::chrono::milliseconds limit) {
  MpiTask last;
  last.call.operation = c10d::OpType::BARRIER;
  last.limit = limit;
  last.start = [](MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(comm, &request), "MPI_Ibarrier");
    return request;
  };
  last.work =
      c10::make_intrusive<MpiWork>(rank_, last.call.operation, 0, std::vector<at::Tensor>());
  const auto work = last.work;
  submit(std::move(last));
  try {
    work->wait();
  } catch (const c10::Error&) {
    return false;
  }
  MpiThread::instance().run([this] {
    for (MPI_Comm* comm : {&collectives_, &exchanges_, &messages_}) MPI_Comm_free(comm);
  });
  return MpiThread::instance().finalize();
}

void MpiGroup::accept(MpiTask task) {
  if (!failure_.empty()) return fail(task, nullptr);
  if (!c10d::isP2POp(task.call.operation)) {
    waiting_.push_back(std::move(task));
  } else {
    under_way_.push_back(std::make_unique<Message>(Message{std::move(task)}));
    Message& message = *under_way_.back();
    try {
      message.request = message.task.start(messages_);
    } catch (const std::exception& failure) {
      break_group(text_of(failure), &message.task);
      return;
    }
  }
  start_polling();
}

void MpiGroup::start_polling() {
  if (std::exchange(is_polled_, true)) return;
  MpiThread::instance().poll_until_false([group = shared_from_this()] { return group->poll(); });
}

bool MpiGroup::poll() {
  try {
    advance_messages();
    advance_collective();
  } catch (const std::exception& failure) {
    break_group(text_of(failure), advancing_);
  }
  advancing_ = nullptr;
  is_polled_ = current_ || !waiting_.empty() || !under_way_.empty();
  return is_polled_;
}

void MpiGroup::advance_messages() {
  for (auto message = under_way_.begin(); message != under_way_.end();) {
    MpiTask& task = (*message)->task;
    advancing_ = &task;
    if (has_finished(task, (*message)->request)) {
      task.work->complete();
      message = under_way_.erase(message);
    } else {
      check_time(task, (*message)->start, "its peer has not answered");
      ++message;
    }
  }
}

void MpiGroup::advance_collective() {
  if (!current_) {
    if (waiting_.empty()) return;
    current_ = std::make_unique<Collective>(Collective{std::move(waiting_.front())});
    waiting_.pop_front();
  }
  advancing_ = &current_->task;
  if (!current_->is_started) advance_exchange();
  if (!current_->is_started) return;
  if (has_finished(current_->task, current_->request)) {
    const auto done = std::move(current_);
    done->task.work->complete();
  } else {
    check_time(current_->task, current_->start, "a rank has called it and not finished it");
  }
}

void MpiGroup::advance_exchange() {
  std::optional<Exchange>& exchange = current_->exchange;
  if (!exchange) exchange.emplace(current_->task.call, rank_, size_, exchanges_);
  if (!exchange->is_done()) {
    const std::vector<int> absent = exchange->absent();
    return check_time(current_->task, current_->start,
                      absent.empty()
                          ? "the call of this rank did not reach its peers"
                          : ranks_in_a_sentence(absent) + (absent.size() == 1 ? " has" : " have") +
                                " not called a collective");
  }
  const std::string mismatch = mismatch_of(exchange->calls());
  TORCH_CHECK_WITH(DistBackendError, mismatch.empty(),
                   "ranks called collectives that do not match: ", mismatch);
  current_->is_started = true;
  current_->request = current_->task.start(collectives_);
}

void MpiGroup::check_time(const MpiTask& task, Clock::time_point start,
                          const std::string& missing) const {
  if (Clock::now() - start < task.limit) return;
  C10_THROW_ERROR(DistBackendError,
                  fmt::format("not finished after {} ms: {}", task.limit.count(), missing));
}

std::string MpiGroup::title(const MpiTask& task) const {
  const bool is_message = c10d::isP2POp(task.call.operation);
  return fmt::format("MPI, rank {} of {}: {} (number {} of this rank's {})", rank_, size_,
                     call_in_words(task.call), task.seq, is_message ? "messages" : "collectives");
}

void MpiGroup::fail(MpiTask& task, const MpiTask* culprit) const {
  const bool is_culprit = &task == culprit;
  task.work->fail(is_culprit ? failure_ : title(task) + " cannot be done after: " + failure_);
}

void MpiGroup::give_up_calls() {
  const bool is_met = current_ && current_->exchange && current_->exchange->absent().empty();
  const bool is_called = current_ && (!is_met || current_->is_started);
  if (is_called || !under_way_.empty()) MpiThread::instance().forbid_finalize();
}

// Buffers of pending calls are never freed, because MPI may still write to them.
void MpiGroup::break_group(const std::string& reason, const MpiTask* culprit) {
  failure_ = culprit ? fmt::format("{}: {}", title(*culprit), reason) : reason;
  give_up_calls();
  if (current_) fail(current_.release()->task, culprit);
  for (auto& message : std::exchange(under_way_, {})) fail(message.release()->task, culprit);
  for (MpiTask& task : std::exchange(waiting_, {})) fail(task, culprit);
}

}  // namespace lockstep
