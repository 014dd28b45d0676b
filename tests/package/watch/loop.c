/* A rank that trains two weights: loop FOLDER RANK SLOPE. Ranks with another slope differ. */

#include <stdio.h>
#include <stdlib.h>

#include "harness/watch/lockstep_watch.h"

static void require(int64_t result) {
  if (result >= 0) return;
  fprintf(stderr, "%s\n", lockstep_watch_error());
  exit(1);
}

static int64_t described(lockstep_watch* watch, const char* phase, const char* kind) {
  static const int64_t shape[] = {2};
  lockstep_watch_tensor tensor = {0};
  tensor.phase = phase;
  tensor.kind = kind;
  tensor.name = "weights";
  tensor.dtype = "float32";
  tensor.dimensions = 1;
  tensor.local_shape = shape;
  tensor.replica_group = "";
  tensor.not_comparable = "";
  const int64_t number = lockstep_watch_describe(watch, &tensor);
  require(number);
  return number;
}

static void observe(lockstep_watch* watch, int64_t tensor, const float* data) {
  const lockstep_watch_value value = {tensor, 0, data, NULL};
  require(lockstep_watch_observe(watch, &value, 1));
}

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  const lockstep_watch_job job = {argv[1], "loop", 0, atoi(argv[2]), 2};
  lockstep_watch_joined joined;
  require(lockstep_watch_create(&job, &joined));
  lockstep_watch_options options = {0};
  options.folder = joined.folder;
  options.job = joined.job;
  options.rank = job.rank;
  options.world_size = job.world_size;
  options.is_created = 1;
  lockstep_watch* const watch = lockstep_watch_open(&options);
  require(watch ? 0 : -1);
  const int64_t initial = described(watch, "pre_forward", "parameter");
  const int64_t gradient = described(watch, "pre_step", "gradient");
  const int64_t parameter = described(watch, "post_step", "parameter");
  float weights[2] = {1, 2};
  for (int64_t step = 1; step <= 3; ++step) {
    const float slope = (float)atof(argv[3]);
    const float gradients[2] = {slope * weights[0], slope * weights[1]};
    require(lockstep_watch_begin_step(watch, step));
    if (step == 1) observe(watch, initial, weights);
    observe(watch, gradient, gradients);
    for (int i = 0; i < 2; ++i) weights[i] -= gradients[i] / 8;
    observe(watch, parameter, weights);
    require(lockstep_watch_end_step(watch));
  }
  require(lockstep_watch_end(watch, NULL));
  require(lockstep_watch_close(watch));
  return 0;
}
