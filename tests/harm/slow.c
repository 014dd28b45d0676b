/* A stand-in for a slow file system, loaded before libc: what a process writes below the folder SLOW_FOLDER, and
 * opens there, takes 1 to 16 ms longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void wait_some(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const struct timespec pause = {0, (1 + now.tv_nsec / 1000 % 16) * 1000000};
  nanosleep(&pause, NULL);
}

static void wait_at_path(const char* path) {
  const char* slow = getenv("SLOW_FOLDER");
  if (slow != NULL && path != NULL && strncmp(path, slow, strlen(slow)) == 0) wait_some();
}

static void wait_at(int fd) {
  char name[40];
  char path[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(name, path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  wait_at_path(path);
}

#define REAL(type, name, ...)                            \
  static type (*real)(__VA_ARGS__);                      \
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void* data, size_t size) {
  REAL(ssize_t, "write", int, const void*, size_t);
  wait_at(fd);
  return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  REAL(ssize_t, "writev", int, const struct iovec*, int);
  wait_at(fd);
  return real(fd, parts, count);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t place) {
  REAL(ssize_t, "pwrite", int, const void*, size_t, off_t);
  wait_at(fd);
  return real(fd, data, size, place);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off_t place) {
  REAL(ssize_t, "pwrite64", int, const void*, size_t, off_t);
  wait_at(fd);
  return real(fd, data, size, place);
}

int fsync(int fd) {
  REAL(int, "fsync", int);
  wait_at(fd);
  return real(fd);
}

int fdatasync(int fd) {
  REAL(int, "fdatasync", int);
  wait_at(fd);
  return real(fd);
}

int open64(const char* path, int flags, ...) {
  REAL(int, "open64", const char*, int, ...);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  wait_at_path(path);
  return real(path, flags, mode);
}

int open(const char* path, int flags, ...) {
  REAL(int, "open", const char*, int, ...);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  wait_at_path(path);
  return real(path, flags, mode);
}
