// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "simulator/arrivals.hpp"
#include "transport/messages/infer.hpp"

namespace millrace::simulator {

/// The requests of a scenario's clients with their times. Equal for equal
/// seeds, for simulated and real clusters.
class workload {
public:
  /// The scenario must outlive the workload. Errors: bad_request when a file
  /// cannot be read, or for too many requests.
  static result<workload> make(const loaded_scenario& what, uint64_t seed);

  struct request {
    microseconds at{0}; ///< since the start of the workload
    uint32_t part = 0;
    uint32_t function = 0;
  };

  /// Sorted by time.
  const std::vector<request>& requests() const { return requests_; }

  const workload_part& part(const request& next) const {
    return what_->spec.workload[next.part];
  }

  /// Draws the model of a request; to be called once for each request, in
  /// order. Empty: any model of the part's application.
  const std::string& choose_model(const request& next);

  /// The request's message. Its input begins with the id.
  infer make_request(const request& next, const std::string& model,
                     uint64_t id);

private:
  struct stream {
    random_stream random{1};
    double total_weight = 0;
  };

  const loaded_scenario* what_ = nullptr;
  std::vector<stream> streams_;
  std::vector<request> requests_;
  std::map<std::string, shared_bytes> inputs_; ///< inputs shared by requests,
                                               ///< by model, if large
};

} // namespace millrace::simulator
