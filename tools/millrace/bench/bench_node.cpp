// SPDX-License-Identifier: Apache-2.0
#include "millrace/bench/bench_node.hpp"

#include <csignal>
#include <filesystem>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/bytes.hpp"

namespace millrace {

namespace {

timestamp now() {
  return std::chrono::steady_clock::now();
}

std::string config_for(const std::string& folder, const std::string& bundles,
                       const std::vector<std::string>& models, recording mode,
                       isolation_mode where) {
  std::string out = "cluster: bench\nlog: {level: warning}\nnodes:\n  bench:\n"
                    "    roles: [gateway, controller, worker]\n"
                    "    clients: tcp://127.0.0.1:*\n"
                    "    peers: ipc://"
                    + folder + "/peers\n    data: data\n    models: " + bundles
                    + "\n";
  if (mode == recording::on)
    out += "    http: 127.0.0.1:0\n";
  out += "    devices: [{type: cpu, isolation: " + std::string{to_string(where)}
         + "}]\n";
  out += "models:\n";
  for (auto& x : models)
    out += "  - {model: " + x + ", policy: {batch: 256}}\n";
  return out;
}

std::string first_line(int fd) {
  std::string out;
  for (char c = 0; ::read(fd, &c, 1) == 1 && c != '\n';)
    out += c;
  return out;
}

} // namespace

result<std::unique_ptr<bench_node>>
bench_node::start(const std::string& folder, const std::string& bundles,
                  const std::vector<std::string>& models, recording mode,
                  isolation_mode where) {
  std::filesystem::create_directories(folder);
  auto config = folder + "/bench.yaml";
  auto text = config_for(folder, bundles, models, mode, where);
  if (auto done = write_file(config, std::as_bytes(std::span{text})); !done)
    return done.failure();
  auto out = std::make_unique<bench_node>();
  if (auto done = out->spawn(config); !done)
    return done.failure();
  return out;
}

bench_node::~bench_node() {
  if (pid_ <= 0)
    return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

result<void> bench_node::spawn(const std::string& config) {
  auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words{self, "node", "--config", config};
  std::vector<char*> argv;
  for (auto& w : words)
    argv.push_back(w.data());
  argv.push_back(nullptr);
  int lines[2];
  if (::pipe2(lines, O_CLOEXEC) != 0)
    return error{ec::unavailable, "no pipe for the bench's node", {}};
  // Not posix_spawn, which cannot ask for the end together with this process.
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::dup2(lines[1], 1);
    ::execv(self.c_str(), argv.data());
    ::_exit(127);
  }
  ::close(lines[1]);
  auto said = pid_ > 0 ? first_line(lines[0]) : std::string{};
  ::close(lines[0]);
  // "node bench of cluster bench: peers ..., clients tcp://127.0.0.1:PORT"
  auto at = said.find("clients ");
  if (at == std::string::npos)
    return error{ec::unavailable, "the bench's node did not start", {}};
  clients_ = said.substr(at + 8, said.find(',', at) - at - 8);
  return {};
}

result<client> bench_node::connect(size_t count) {
  auto gateway = client::connect(clients_, 20s);
  if (!gateway)
    return gateway;
  for (auto begin = now(); now() - begin < 30s;) {
    auto models = gateway->models();
    if (models && models->size() == count)
      return gateway;
    static_cast<void>(gateway->receive(100ms));
  }
  return error{ec::unavailable, "the bench's node was not ready in 30 s", {}};
}

} // namespace millrace
