// Shared by the tests of this folder.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "harness/observe/look_at.h"
#include "harness/train/nn/module.h"
#include "reports/base/error.h"

namespace lockstep {

inline const std::vector<at::ScalarType> kDTypes{at::kFloat,
                                                 at::kDouble,
                                                 at::kHalf,
                                                 at::kBFloat16,
                                                 at::kChar,
                                                 at::kShort,
                                                 at::kInt,
                                                 at::kLong,
                                                 at::kByte,
                                                 at::kBool,
                                                 at::kComplexFloat,
                                                 at::kComplexDouble,
                                                 at::kFloat8_e4m3fn,
                                                 at::kFloat8_e5m2,
                                                 at::kFloat8_e4m3fnuz,
                                                 at::kFloat8_e5m2fnuz,
                                                 at::kFloat8_e8m0fnu};

/// A tensor of random bytes: every bit pattern may occur, NaN among them. A bool is 0 or 1.
inline at::Tensor random_bits(const std::vector<std::int64_t>& shape, at::ScalarType dtype) {
  at::Tensor tensor = at::empty(shape, dtype);
  const at::Tensor random =
      at::randint(dtype == at::kBool ? 2 : 256, {static_cast<std::int64_t>(tensor.nbytes())},
                  cpu_generator(11), at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), random.const_data_ptr(), tensor.nbytes());
  return tensor;
}

inline Observation look(const at::Tensor& tensor,
                        const std::optional<Shard>& shard = std::nullopt) {
  return look_at(tensor, shard, nullptr);
}

inline void flip(at::Tensor& tensor, std::size_t bit) {
  static_cast<std::uint8_t*>(tensor.mutable_data_ptr())[bit / 8] ^= 1U << bit % 8;
}

inline std::string dtype_text(at::ScalarType dtype) {
  return std::string(c10::getDtypeNames(dtype).first);
}

/// The text of the Error of that kind that `call` throws.
template <class Call>
std::string error_of(Error::Kind kind, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "no error";
}

}  // namespace lockstep
