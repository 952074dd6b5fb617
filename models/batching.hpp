// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "models/signature.hpp"

namespace millrace {

/// The inputs or outputs of one request, in the signature's order.
using tensor_list = std::vector<tensor>;

size_t bytes_of(const tensor_list& xs);

/// Joins the inputs of several requests along the batch axis: one copy of each
/// byte, none when there is one request. All must have passed check_inputs and
/// agree in every other extent.
/// Errors: bad_request when they do not agree; too_large.
result<tensor_list> gather(std::span<const tensor_list> requests,
                           int batch_axis);

/// Cuts a batch's outputs into each request's rows. Along axis 0 the parts
/// share the batch's bytes; along another axis they are copied.
/// Errors: internal when the backend gave another number of rows.
result<std::vector<tensor_list>> scatter(const tensor_list& outputs,
                                         std::span<const size_t> rows,
                                         int batch_axis);

/// Whether two requests may share a batch.
bool mergeable(const tensor_list& a, const tensor_list& b, int batch_axis);

} // namespace millrace
