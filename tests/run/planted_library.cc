// Prints that it was loaded.

#include <cstdio>

namespace {

[[gnu::constructor]] void tell() {
  std::puts("the planted library was loaded");
  std::fflush(stdout);
}

}  // namespace
