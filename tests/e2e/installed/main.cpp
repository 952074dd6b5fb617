// SPDX-License-Identifier: Apache-2.0

/// \file
/// An external program that uses the installed client library.

#include <iostream>

#include "client/client.hpp"

int main(int, char** argv) {
  using namespace millrace;
  auto gateway = client::connect(argv[1], std::chrono::seconds{5});
  if (!gateway) {
    std::cerr << gateway.failure().text << std::endl;
    return 1;
  }
  infer x;
  x.model = argv[2];
  x.inputs.push_back({"", *tensor::zeros(dtype::f32, {1, 4})});
  auto y = gateway->infer_one(x);
  std::cout << to_string(y.status) << " " << y.outputs.size() << std::endl;
  return y.status == ec::ok ? 0 : 1;
}
