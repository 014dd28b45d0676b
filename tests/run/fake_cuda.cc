// A driver library that behaves as the variable FAKE_CUDA says: "2" devices, "error 999", "abort",
// "hang", "exit", "noise". Doctor finds it first on LD_LIBRARY_PATH, under the real one's name.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool behaves(const char* how) {
  return std::strncmp(std::getenv("FAKE_CUDA"), how, std::strlen(how)) == 0;
}

int number_in(const char* text) { return std::atoi(text + std::strcspn(text, "0123456789")); }

}  // namespace

extern "C" {

int cuInit(unsigned) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible && !*visible) return 100;
  if (behaves("abort")) std::abort();
  if (behaves("exit")) ::_exit(0);
  if (behaves("noise")) std::puts("a line of the driver's own");
  while (behaves("hang")) ::pause();
  return behaves("error") ? number_in(std::getenv("FAKE_CUDA")) : 0;
}

int cuDeviceGetCount(int* count) {
  *count = number_in(std::getenv("FAKE_CUDA"));
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}

int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake %s", device == 2 ? "B" : "A");
  return 0;
}

int cuGetErrorName(int error, const char** name) {
  *name = "CUDA_ERROR_UNKNOWN";
  return error == 999 ? 0 : 1;
}
}
