// SPDX-License-Identifier: Apache-2.0
#include "runtime/program_folder.hpp"

#include <filesystem>

namespace millrace {

std::string program_folder() {
  std::error_code ignored;
  auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  auto here = self.parent_path();
  return here.filename() == "millrace" ? here
                                       : here.parent_path() / "lib/millrace";
}

} // namespace millrace
