/* The interface of liblockstep_watch: it observes the tensors of one rank of any training job and
 * writes them as a journal, an index and snapshots (docs/formats.md). Plain C, so a program in any
 * language can load it. It is linked with neither torch, Python nor CUDA.
 *
 * The caller describes each tensor once and passes its address in every step. Nothing here
 * communicates, changes a tensor, or keeps an address of this process's memory after the call that
 * received it.
 *
 * A function that can fail returns a negative number on failure, and `lockstep_watch_error` says
 * why. After a failure the caller should give the watch up and close it; files written so far stay
 * readable. A watch belongs to one thread at a time. A limit of file sizes fails a call as a full
 * disk does, and sends no SIGXFSZ. */
#pragma once

#include <stdint.h>

#define LOCKSTEP_WATCH_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Increases with every change that an older caller would notice. */
#define LOCKSTEP_WATCH_INTERFACE 10

/* The interface of the loaded library. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_interface(void);

/* Why the last call of this thread failed: one sentence, UTF-8. Never null. */
LOCKSTEP_WATCH_API const char* lockstep_watch_error(void);

/* A job that no `lockstep watch` has started: its ranks make its folder by themselves. */
typedef struct {
  const char* folder;  /* of the run; empty: a new one, runs/<utc>, which no other rank finds */
  const char* title;   /* names the job in reports: "train.py --lr 0.1"; UTF-8 */
  int64_t agree_every; /* ranks need to agree in one of so many steps; 0: in all */
  int32_t rank;        /* ignored if `world_size` is 0 */
  int32_t world_size;  /* 0: not known yet */
  int32_t is_group_readable; /* 1: the group may read the run's folder; 0: its owner alone */
  const char* label;         /* names it in keys of findings: "train.py"; null: its title */
} lockstep_watch_job;

typedef struct {
  char folder[4096]; /* for `lockstep_watch_options`: inside that of the run */
  char job[32];      /* its id */
} lockstep_watch_joined;

/* Makes the run's folder with the record of the job, unless another rank of the job did so. All
 * ranks call it with the same folder, title and `agree_every`, at the same time or one after the
 * other. Fails if the folder cannot be written or has another content, such as an earlier job. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_create(const lockstep_watch_job* job,
                                                 lockstep_watch_joined* joined);

/* Makes the folder of the files of another attempt of a job that `lockstep watch` runs, unless that
 * was done: a launcher calls it before it begins the ranks again, and gives them this folder. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_begin_attempt(const char* folder);

typedef struct lockstep_watch lockstep_watch;

typedef struct {
  const char* folder; /* of the job's files; it must exist */
  const char* job;    /* the job's id, written into each file */
  int32_t rank;
  int32_t keeps_before; /* 1: copies the values of each step, so that those of the step in which
                           snapshots are asked for are stored, too; else 0 */
  uint64_t keep_bytes;  /* of values that are stored as snapshots, at most, once asked for */
  int32_t world_size;
  int32_t is_created; /* 1: the job is one of `lockstep_watch_create`: the last rank that closes its
                         watch completes the record of the job; else 0 */
  int64_t segment_rows; /* a step that begins after so many rows begins a new file, so that the
                           parent can thin the old one; 0: there is one file */
  int64_t store_first;  /* steps whose values are stored, without being asked for, as far as
                           `keep_bytes` allows */
} lockstep_watch_options;

/* Creates the files of a rank, its status, and the facts about it that a report needs. Null on
 * failure, for example if another process observes this rank in the same folder, or did so. */
LOCKSTEP_WATCH_API lockstep_watch* lockstep_watch_open(const lockstep_watch_options* options);

/* Writes everything that is pending and frees the watch. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_close(lockstep_watch* watch);

/* A tensor apart from its value. Words are those of the journal: phase "pre_step", kind "gradient",
 * dtype "float32". `name`, `replica_group` and `not_comparable` are UTF-8. */
typedef struct {
  const char* phase;
  const char* kind;
  const char* name;
  const char* dtype; /* empty: the tensor is undefined */
  int32_t dimensions;
  int32_t is_summand;          /* 1: values of other replica groups at its place are added to it */
  const int64_t* local_shape;  /* sizes of the part that this rank holds */
  const int64_t* global_shape; /* null: the tensor is whole */
  const int64_t* offset;       /* of the part in the global tensor; null: the tensor is whole */
  const char* replica_group;   /* ranks that hold copies; empty: all ranks */
  const char* not_comparable;  /* why its value is not compared; empty: it is */
} lockstep_watch_tensor;

/* Describes a tensor. Returns its number, or -1. One of kind "data" has at least one dimension, the
 * first of which counts samples. */
LOCKSTEP_WATCH_API int64_t lockstep_watch_describe(lockstep_watch* watch,
                                                   const lockstep_watch_tensor* tensor);

/* Whether snapshots are stored now, because ranks differ or in a first step: 1, else 0. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_keeps(const lockstep_watch* watch);

/* Whether a step is to be observed, as the user of a running job decides: 1, else 0. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_observes(const lockstep_watch* watch, int64_t step);

/* How many segments the parent had thinned when a step began, since all ranks agreed in them. It is
 * the same number on all ranks of the parent. */
LOCKSTEP_WATCH_API int64_t lockstep_watch_thinned_segments(const lockstep_watch* watch,
                                                           int64_t step);

/* Begins a step. Steps start at 1 or later and increase. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_begin_step(lockstep_watch* watch, int64_t step);

/* A value in the memory of this process. */
typedef struct {
  int64_t tensor;         /* its number */
  int64_t micro_batch;    /* from 0 */
  const void* data;       /* the first element; ignored if the tensor is not compared */
  const int64_t* strides; /* in elements, one per dimension; null: row-major without gaps */
} lockstep_watch_value;

/* Measures large values of later calls on up to so many threads, which last no longer than the
 * call. One thread measures a whole value, so what is recorded does not depend on their number. At
 * first:
 * 1. Fails for less than 1. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_use_threads(lockstep_watch* watch, int32_t threads);

/* Records values in their order. A tensor may occur once per step and micro-batch. If one value is
 * refused, none is recorded. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_observe(lockstep_watch* watch,
                                                  const lockstep_watch_value* values,
                                                  int64_t count);

/* Measures values now, and records them in the step that begins next. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_observe_next(lockstep_watch* watch,
                                                       const lockstep_watch_value* values,
                                                       int64_t count);

/* The same for values in the memory of a GPU: that of the context of CUDA's driver that is current
 * on this thread. They are measured there by one kernel on `stream` (a CUstream; null: the default
 * one), after all work that it has been given. The call does not wait for that, unless values may
 * be stored: later work of `stream`, and of none else, may change or free them. What is recorded is
 * written once the GPU has done the work, by a thread of the library, and so is all that is given
 * after it; `lockstep_watch_end` waits for it. What fails there is told by a later call. No
 * `strides`: the values are row-major without gaps. Uses the driver that this process has loaded,
 * and creates no context. Fails while `stream` captures a CUDA graph.
 *
 * Returns 1, and has recorded nothing, if the GPU cannot measure: `lockstep_watch_error` says why,
 * and all later calls for this watch return 1 for the same reason. The caller then copies the
 * values to the memory of this process and uses the functions above. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_observe_on_gpu(lockstep_watch* watch,
                                                         const lockstep_watch_value* values,
                                                         int64_t count, void* stream);
LOCKSTEP_WATCH_API int32_t lockstep_watch_observe_next_on_gpu(lockstep_watch* watch,
                                                              const lockstep_watch_value* values,
                                                              int64_t count, void* stream);

/* Ends the step: its rows become visible to readers that follow the index. Later values of the same
 * step may follow; end it again then. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_end_step(lockstep_watch* watch);

/* Writes the status of a rank that ends. `error`: the text of the exception that ended it; null: it
 * finished. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_end(lockstep_watch* watch, const char* error);

/* Notes why this rank is no longer observed, so that no verdict takes the steps so far for all.
 * `why`: UTF-8, of which about 400 bytes are noted. They have their place on the disk since the
 * watch was opened, so a full one takes them. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_give_up(lockstep_watch* watch, const char* why);

/* The digest of a value in the memory of this process, as its row has it: 32 hexadecimal digits and
 * a zero. `dtype`, `dimensions` and `shape` as those of a tensor, `data` and `strides` as those of
 * a value. Needs no watch. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_digest(const char* dtype, int32_t dimensions,
                                                 const int64_t* shape, const void* data,
                                                 const int64_t* strides, char digest[33]);

/* An exception of C++ that nobody catches, such as one of a thread of Gloo, ends this process from
 * now on only after `lockstep_watch_allow_termination`, or after two seconds: another thread can
 * note what the process did. Not so in processes that this one forks. */
LOCKSTEP_WATCH_API void lockstep_watch_delay_termination(void);

/* Whether this process waits for `lockstep_watch_allow_termination`: 1 or 0. */
LOCKSTEP_WATCH_API int32_t lockstep_watch_is_terminating(void);

LOCKSTEP_WATCH_API void lockstep_watch_allow_termination(void);

#ifdef __cplusplus
}
#endif
