// SPDX-License-Identifier: Apache-2.0
#include "runtime/program_folder.hpp"

#include <algorithm>
#include <filesystem>

namespace millrace {

std::string program_folder() {
  std::error_code ignored;
  auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  auto here = self.parent_path();
  return here.filename() == "millrace" ? here
                                       : here.parent_path() / "lib/millrace";
}

std::vector<std::string> yaml_names_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code failed;
  for (auto& x : std::filesystem::directory_iterator{folder, failed})
    if (x.path().extension() == ".yaml")
      out.push_back(x.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

} // namespace millrace
