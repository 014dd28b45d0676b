#include "harness/comm/mpi/mpi_reduction.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <limits>
#include <map>
#include <type_traits>

#include "harness/comm/mpi/mpi_check.h"

namespace lockstep {

namespace {

using Op = c10d::ReduceOp;

std::map<std::size_t, MPI_Datatype>& types() {
  static std::map<std::size_t, MPI_Datatype> made;
  return made;
}

std::map<MPI_User_function*, MPI_Op>& operations() {
  static std::map<MPI_User_function*, MPI_Op> made;
  return made;
}

/// Computed in unsigned 64 bits, so that integers wrap like torch's.
template <class T>
constexpr bool kIsWhole = std::is_integral_v<T> && !std::is_same_v<T, bool>;

struct Sum {
  template <class T>
  static T of(T a, T b) {
    if constexpr (kIsWhole<T>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return static_cast<T>(a + b);
    }
  }
};

struct Product {
  template <class T>
  static T of(T a, T b) {
    if constexpr (kIsWhole<T>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return static_cast<T>(a * b);
    }
  }
};

struct Minimum {
  template <class T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};

struct Maximum {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};

struct And {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct Or {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct Xor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <class Combination, class T>
void combine_all(void* from, void* into, int* count, MPI_Datatype* /*type*/) {
  const T* const values = static_cast<const T*>(from);
  T* const results = static_cast<T*>(into);
  for (int i = 0; i < *count; ++i) results[i] = Combination::of(results[i], values[i]);
}

template <class T>
MPI_User_function* function_of(Op::RedOpType op) {
  switch (op) {
    case Op::SUM:
    case Op::AVG:
      return combine_all<Sum, T>;
    case Op::PRODUCT:
      return combine_all<Product, T>;
    case Op::MIN:
      return combine_all<Minimum, T>;
    case Op::MAX:
      return combine_all<Maximum, T>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == Op::BAND) return combine_all<And, T>;
    if (op == Op::BOR) return combine_all<Or, T>;
    if (op == Op::BXOR) return combine_all<Xor, T>;
  }
  return nullptr;
}

MPI_User_function* function_of(Op::RedOpType op, at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return function_of<float>(op);
    case at::kDouble:
      return function_of<double>(op);
    case at::kHalf:
      return function_of<c10::Half>(op);
    case at::kBFloat16:
      return function_of<c10::BFloat16>(op);
    case at::kChar:
      return function_of<std::int8_t>(op);
    case at::kByte:
      return function_of<std::uint8_t>(op);
    case at::kShort:
      return function_of<std::int16_t>(op);
    case at::kInt:
      return function_of<std::int32_t>(op);
    case at::kLong:
      return function_of<std::int64_t>(op);
    case at::kBool:
      return function_of<bool>(op);
    default:
      return nullptr;
  }
}

template <class T>
void divide(void* values, std::int64_t elements, int divisor) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  T* const results = static_cast<T*>(values);
  for (std::int64_t i = 0; i < elements; ++i) {
    results[i] = static_cast<T>(static_cast<Wide>(results[i]) / static_cast<Wide>(divisor));
  }
}

}  // namespace

MPI_Datatype mpi_type(std::size_t element_bytes) {
  const auto [entry, is_new] = types().try_emplace(element_bytes, MPI_DATATYPE_NULL);
  if (is_new) {
    check_mpi(MPI_Type_contiguous(static_cast<int>(element_bytes), MPI_BYTE, &entry->second),
              "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&entry->second), "MPI_Type_commit");
  }
  return entry->second;
}

void free_mpi_types() {
  for (auto& [bytes, type] : types()) MPI_Type_free(&type);
  for (auto& [function, operation] : operations()) MPI_Op_free(&operation);
  types().clear();
  operations().clear();
}

MpiReduction::MpiReduction(const c10d::ReduceOp& op, at::ScalarType dtype)
    : op_(op.op_), dtype_(dtype), combine_(function_of(op_, dtype)) {
  TORCH_CHECK(combine_, "MPI: reduction ", static_cast<int>(op_), " of ",
              c10::getDtypeNames(dtype).first, " is not supported");
  TORCH_CHECK(op_ != Op::AVG || at::isFloatingType(dtype), "MPI: an average of whole numbers (",
              c10::getDtypeNames(dtype).first, ") is not supported; sum them");
}

bool MpiReduction::depends_on_order() const { return at::isFloatingType(dtype_); }

void MpiReduction::combine(const void* from, void* into, std::int64_t elements) const {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const auto bytes = static_cast<std::int64_t>(c10::elementSize(dtype_));
  for (std::int64_t begin = 0; begin < elements; begin += kMost) {
    int count = static_cast<int>(std::min(elements - begin, kMost));
    // MPI's signature is not const, but the functions do not change `from`.
    combine_(const_cast<char*>(static_cast<const char*>(from) + begin * bytes),
             static_cast<char*>(into) + begin * bytes, &count, nullptr);
  }
}

void MpiReduction::finish(void* values, std::int64_t elements, int world_size) const {
  if (op_ != Op::AVG) return;
  if (dtype_ == at::kFloat) divide<float>(values, elements, world_size);
  if (dtype_ == at::kDouble) divide<double>(values, elements, world_size);
  if (dtype_ == at::kHalf) divide<c10::Half>(values, elements, world_size);
  if (dtype_ == at::kBFloat16) divide<c10::BFloat16>(values, elements, world_size);
}

MPI_Op MpiReduction::mpi_op() const {
  const auto [entry, is_new] = operations().try_emplace(combine_, MPI_OP_NULL);
  if (is_new) {
    check_mpi(MPI_Op_create(combine_, /*commute=*/1, &entry->second), "MPI_Op_create");
  }
  return entry->second;
}

}  // namespace lockstep
