#include "harness/train/loop/marked_parameters.h"

#include "harness/train/ddp/gradient_reduction.h"

namespace lockstep {

void reduce_by_hooks_if_asked(Rank& rank, const std::vector<at::Tensor>& marked) {
  if (rank.has("reduced", "by-hooks")) sum_by_hooks(rank.group(), marked);
}

void reduce_after_backward_if_asked(Rank& rank, const std::vector<at::Tensor>& marked) {
  if (rank.has("reduced", "averaged")) average_each(rank.group(), marked);
  if (rank.has("reduced", "summed")) sum_each(rank.group(), marked);
}

}  // namespace lockstep
