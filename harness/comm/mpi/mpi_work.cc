#include "harness/comm/mpi/mpi_work.h"

#include <c10/util/Exception.h>

#include <utility>

namespace lockstep {

MpiWork::MpiWork(int rank, c10d::OpType operation, std::uint64_t seq,
                 std::vector<at::Tensor> outputs)
    : Work(rank, operation),
      seq_(seq),
      outputs_(std::move(outputs)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

// Callbacks of the future run before waiting threads continue.
void MpiWork::complete() {
  future_->markCompleted(c10::IValue(outputs_));
  finish();
}

void MpiWork::fail(const std::string& reason) {
  std::exception_ptr failure;
  try {
    C10_THROW_ERROR(DistBackendError, reason);
  } catch (...) {
    failure = std::current_exception();
  }
  future_->setError(failure);
  finish(failure);
}

}  // namespace lockstep
