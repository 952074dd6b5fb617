// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "simulator/arrivals.hpp"
#include "transport/messages/infer.hpp"

namespace millrace::simulator {

/// What a scenario's clients ask, and when: the same for the same seed, whether
/// a simulated cluster is asked or a real one.
class workload {
public:
  /// The scenario outlives it. Errors: bad_request when a file cannot be read
  /// or there are too many requests.
  static result<workload> make(const loaded_scenario& what, uint64_t seed);

  struct request {
    microseconds at{0}; ///< since the start
    uint32_t part = 0;
    uint32_t function = 0;
  };

  /// In order of time.
  const std::vector<request>& requests() const { return requests_; }

  const workload_part& part(const request& x) const {
    return what_->spec.workload[x.part];
  }

  /// Who is asked; to be called once for each request, in order. Empty: any of
  /// the part's application.
  const std::string& choose_model(const request& x);

  /// What is asked. Its input begins with the id.
  infer make_request(const request& x, const std::string& model, uint64_t id);

private:
  struct stream {
    random_stream random{1};
    double total_weight = 0;
  };

  const loaded_scenario* what_ = nullptr;
  std::vector<stream> streams_;
  std::vector<request> requests_;
  std::map<std::string, shared_bytes> inputs_; ///< by model, when large
};

} // namespace millrace::simulator
