#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/command.h"

namespace lockstep {

/// Whether `text` equals `tests/<name>.golden`; writes it anew on request.
inline void expect_golden_file(const std::string& name, const std::string& text) {
  const std::string path = LOCKSTEP_SOURCE_DIR "/tests/" + name + ".golden";
  if (std::getenv("LOCKSTEP_UPDATE_GOLDENS")) {
    write_text(path, text);
    FAIL() << path << " was written anew; read it before you trust it";
  }
  EXPECT_EQ(text, text_of(path)) << "LOCKSTEP_UPDATE_GOLDENS=1 writes " << path << " anew";
}

}  // namespace lockstep
