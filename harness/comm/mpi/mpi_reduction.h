#pragma once

#include <c10/core/ScalarType.h>
#include <mpi.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace lockstep {

/// The MPI datatype for elements of this size. Values travel as bytes; only `MpiReduction`
/// interprets them. Call only on the thread that calls MPI.
MPI_Datatype mpi_type(std::size_t element_bytes);

/// Frees the created datatypes and operations. Call only on the thread that calls MPI, before
/// MPI_Finalize.
void free_mpi_types();

/// Order in which floating values are reduced. Whole numbers give the same result in any order.
///   rank_order  ((x0 + x1) + x2) + ..., rounded to the dtype each time: every rank receives all
///               values and reduces them itself. Same bits with every MPI, equal to a serial sum;
///               takes world size times the memory and the bytes
///   library     the MPI library's choice, which differs between flavours and world sizes
enum class MpiOrder { rank_order, library };

/// Combines elements of a dtype in torch's arithmetic for it. Whole numbers wrap, bool knows true
/// and false, half and bfloat16 round after each step. MPI's own operations are not used: Open MPI
/// saturates short integers, MPICH compares unsigned ones as signed, and none knows half.
class MpiReduction {
 public:
  /// Throws c10::Error if torch has no such reduction: an average of whole numbers, bits of
  /// floating ones.
  MpiReduction(const c10d::ReduceOp& op, at::ScalarType dtype);

  /// Whether the order of the operands affects the result: by rounding, or by NaNs.
  bool depends_on_order() const;

  /// `into` becomes `into` op `from`. A pure function of the values.
  void combine(const void* from, void* into, std::int64_t elements) const;

  /// Divides by the world size for an average; does nothing otherwise.
  void finish(void* values, std::int64_t elements, int world_size) const;

  /// The operation for MPI's own reductions of `mpi_type`s. Call only on the thread that calls MPI.
  MPI_Op mpi_op() const;

  c10d::ReduceOp::RedOpType op() const { return op_; }

 private:
  c10d::ReduceOp::RedOpType op_;
  at::ScalarType dtype_;
  MPI_User_function* combine_;
};

}  // namespace lockstep
