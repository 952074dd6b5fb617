// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_environment.hpp"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "millrace/child.hpp"
#include "models/bundle_store.hpp"
#include "models/crossing.hpp"
#include "runtime/program_folder.hpp"

namespace millrace {

result<gpu_environment> gpu_environment::open(const gpu_options& options) {
  gpu_environment out{options};
  auto runner = torch_backend(code_trust::full);
  if (!runner)
    return runner.failure();
  out.runner_ = *runner;
  auto gpus = gpus_of(*out.runner_);
  if (!gpus)
    return gpus.failure();
  auto found = (*gpus)->list();
  if (!found)
    return found.failure();
  auto number = static_cast<size_t>(options.gpu);
  if (number >= found->size())
    return error{ec::unavailable,
                 "there is no GPU " + std::to_string(number) + ", of "
                   + std::to_string(found->size()),
                 {}};
  out.gpu_ = (*found)[number];
  if (std::filesystem::exists(options.profile)) {
    auto before = read_profiles(options.profile);
    if (!before)
      return before.failure();
    out.profiles_ = std::move(*before);
  }
  return out;
}

result<workload> gpu_environment::find(const std::string& name,
                                       size_t rows) const {
  auto x = bundle_store{options_.models}.open(name, "", verify::hashes);
  if (!x)
    return x.failure();
  workload out{name, std::make_shared<const bundle>(std::move(*x)), rows, {}};
  auto inputs = zeros_across(out.content->info, 0, rows);
  if (!inputs)
    return inputs.failure();
  out.inputs = std::move(*inputs);
  return out;
}

result<std::unique_ptr<measured_device>>
gpu_environment::device(isolation_mode where, gpu_place how,
                        uint32_t lanes) const {
  backend_settings settings;
  settings.isolation = where;
  how.gpu = options_.gpu;
  settings.gpu = how;
  return measured_device::make({"gpu0", "cuda", lanes, {}}, settings);
}

result<std::vector<double>>
gpu_environment::ask_bare(std::vector<std::string> arguments) const {
  auto program = program_folder() + "/gpu_floors";
  arguments.insert(arguments.begin(), std::to_string(options_.gpu));
  std::istringstream in{child{arguments, program}.wait()};
  std::vector<double> out;
  for (double x = 0; in >> x;)
    out.push_back(x);
  if (out.empty())
    return error{ec::unavailable, program + ": cannot run " + arguments[1], {}};
  return out;
}

result<bare_call> gpu_environment::call_bare(const workload& load) const {
  std::vector<std::string> arguments{
    options_.files + "/" + load.name + ".pt",
    std::string{to_string(load.inputs.at(0).type)}};
  for (auto n : load.inputs[0].extents)
    arguments.push_back(std::to_string(n));
  auto found = ask_bare(arguments);
  if (!found)
    return found.failure();
  return bare_call{found->at(0), found->at(1)};
}

std::string gpu_environment::kind() const {
  std::istringstream words{gpu_.name};
  std::string out;
  while (words >> out && (out == "NVIDIA" || out == "Tesla"))
    ;
  out = out.substr(0, out.find('-'));
  for (auto& c : out)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

profile& gpu_environment::profile_of(const std::string& model) {
  for (auto& x : profiles_)
    if (x.model == model)
      return x;
  return profiles_.emplace_back(profile{model, {}, {}, {}});
}

result<void> gpu_environment::write_profile() const {
  if (options_.profile.empty() || profiles_.empty())
    return {};
  std::ofstream out{options_.profile};
  out << print_profiles(profiles_);
  if (!out.flush())
    return error{ec::unavailable, options_.profile + ": cannot be written", {}};
  return {};
}

} // namespace millrace
