/* A clock that somebody sets, loaded before libc: every 300 ms the time of day is another one, of now, of some hours
 * ago, or of some hours ahead. Clocks that count from a start go on as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

typedef int (*Ask)(clockid_t, struct timespec*);

static Ask real(void) {
  static Ask ask;
  if (ask == NULL) *(void**)&ask = dlsym(RTLD_NEXT, "clock_gettime");
  return ask;
}

static time_t jump(void) {
  static const time_t kJumps[] = {0, 5 * 3600, -7 * 3600, 26 * 3600, -1};
  struct timespec since;
  real()(CLOCK_MONOTONIC, &since);
  return kJumps[(since.tv_sec * 1000 + since.tv_nsec / 1000000) / 300 % 5];
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int failure = real()(clock, now);
  if (failure == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
  return failure;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}
