#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The words that run `code` in a Python. `python` is its path and may be followed by options. No
/// file of the working folder is imported, whatever its name: Python is isolated (-I), and the
/// folders of PYTHONPATH and the user's own packages, where torch may be, are searched after its
/// own library. Folders on PYTHONPATH that are relative, or the working folder, are left out.
std::vector<std::string> isolated_python(std::vector<std::string> python, const std::string& code);

}  // namespace lockstep
