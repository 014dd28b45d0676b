#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace lockstep {

// Collectives of one tensor on each side. Newer releases of torch than 2.11 have other names for
// them and call the old ones deprecated.

template <class Group>
c10::intrusive_ptr<c10d::Work> all_gather_single(Group& group, at::Tensor& output,
                                                 at::Tensor& input) {
  if constexpr (requires { group.all_gather_single(output, input); }) {
    return group.all_gather_single(output, input);
  } else {
    return group._allgather_base(output, input);
  }
}

template <class Group>
c10::intrusive_ptr<c10d::Work> reduce_scatter_single(Group& group, at::Tensor& output,
                                                     at::Tensor& input,
                                                     const c10d::ReduceScatterOptions& options) {
  if constexpr (requires { group.reduce_scatter_single(output, input, options); }) {
    return group.reduce_scatter_single(output, input, options);
  } else {
    return group._reduce_scatter_base(output, input, options);
  }
}

template <class Group>
concept HasGatherSingle = requires(Group& group, at::Tensor& tensor, c10d::GatherOptions options) {
  group.gather_single(tensor, tensor, options);
};

/// Releases of torch without it raise an error, as backends without it do in others.
template <class Group>
c10::intrusive_ptr<c10d::Work> gather_single(Group& group, at::Tensor& output, at::Tensor& input,
                                             const c10d::GatherOptions& options) {
  if constexpr (HasGatherSingle<Group>) {
    return group.gather_single(output, input, options);
  } else {
    TORCH_CHECK(false, "this release of torch has no gather_single");
  }
}

}  // namespace lockstep
