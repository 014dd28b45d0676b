#include "harness/record/collective_words.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

std::string with_site(const Collective& call) {
  const std::string site = call.site.empty() ? "" : fmt::format(" ({})", call.site);
  return call_in_words(call) + site;
}

}  // namespace

std::string role_in_words(Kind kind, const std::string& parameter) {
  return kind == Kind::gradient ? "gradient of " + parameter : parameter;
}

std::string call_in_words(const Collective& call) {
  std::string text = call.operation;
  for (const std::string& word : {call.reduction, call.dtype, call.shape}) {
    if (!word.empty()) text += " " + word;
  }
  if (call.tensors > 1) {
    text += fmt::format(" and {} more tensors, {} elements", call.tensors - 1, call.elements);
  }
  if (call.root >= 0) text += fmt::format(", root {}", call.root);
  if (!call.tensor.empty()) text += ", " + call.tensor;
  return text;
}

std::optional<MismatchFault> difference(const Collective& a, const Collective& b) {
  if (a.operation != b.operation) return MismatchFault::operation;
  if (a.reduction != b.reduction) return MismatchFault::reduction;
  if (a.dtype != b.dtype) return MismatchFault::dtype;
  // Messages between two ranks may have any size.
  const bool may_be_uneven = a.operation.starts_with("alltoall");
  if (!may_be_uneven && (a.elements != b.elements || a.tensors != b.tensors)) {
    return MismatchFault::size;
  }
  if (a.root != b.root) return MismatchFault::root;
  return std::nullopt;
}

std::string difference_in_words(const Collective& a, int rank_a, const Collective& b, int rank_b) {
  return fmt::format("rank {} calls {}, but rank {} calls {}", rank_a, with_site(a), rank_b,
                     with_site(b));
}

}  // namespace lockstep
