#include "harness/record/component_pass.h"

#include <algorithm>

#include "harness/record/scalar_target.h"
#include "harness/record/vector_target.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kPiece = kDigestBlock * 4;  // bytes
constexpr std::size_t kComponents = ComponentSums::kLanes;
static_assert(kPiece % (kComponents * sizeof(double)) == 0, "pieces begin with a block");

bool is_floating(DType component) { return unit_roundoff(component) > 0; }

/// Null for types that have no vector code.
VectorTarget::AddBlocks adder_of(DType component) {
  switch (component) {
    case DType::float32:
      return vector_target().float32;
    case DType::bfloat16:
      return vector_target().bfloat16;
    case DType::float16:
      return vector_target().float16;
    case DType::float64:
      return vector_target().float64;
    default:
      return nullptr;
  }
}

}  // namespace

void ComponentPass::add(std::span<const std::byte> bytes, std::uint64_t begin) {
  const std::size_t size = item_size(component_);
  const bool has_sums = is_floating(component_) || wanted_.sketch;
  while (!bytes.empty()) {
    const std::uint64_t offset = begin * size;
    const auto piece = bytes.first(std::min<std::size_t>(bytes.size(), kPiece - offset % kPiece));
    if (wanted_.digest) digest_ += digest_run(piece, offset);
    if (has_sums) add_piece(piece, begin);
    begin += piece.size() / size;
    bytes = bytes.subspan(piece.size());
  }
}

void ComponentPass::add_piece(std::span<const std::byte> bytes, std::uint64_t begin) {
  const std::size_t size = item_size(component_);
  const auto add_some = [&](std::size_t count) {
    add_components(component_, bytes.data(), count, begin, number_, wanted_.sketch, sums_);
    number_ += count;
    begin += count;
    bytes = bytes.subspan(count * size);
  };
  if (begin % kComponents != 0) {
    add_some(std::min<std::size_t>(bytes.size() / size, kComponents - begin % kComponents));
  }
  const std::size_t blocks = bytes.size() / (kComponents * size);
  if (blocks > 0 && adder_of(component_)) {
    add_blocks(bytes.data(), blocks, begin / kComponents);
    begin += blocks * kComponents;
    bytes = bytes.subspan(blocks * kComponents * size);
  }
  add_some(bytes.size() / size);
}

/// The blocks may begin at any component of the part, which counts as component 0 for the target.
void ComponentPass::add_blocks(const std::byte* bytes, std::size_t blocks, std::uint64_t first) {
  auto& squares = sums_.squares;
  const std::size_t turn = number_ % squares.size();
  std::rotate(squares.begin(), squares.begin() + turn, squares.end());
  adder_of(component_)(bytes, blocks, first, wanted_.sketch, sums_);
  std::rotate(squares.begin(), squares.end() - turn, squares.end());
  number_ += blocks * kComponents;
}

}  // namespace lockstep
