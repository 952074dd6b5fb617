// SPDX-License-Identifier: Apache-2.0
#include "transport/objects/bundle_index.hpp"

#include "runtime/hash.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace {

namespace {

constexpr uint64_t most_index_bytes = 16u << 20;

} // namespace

std::string print_index(const bundle_index& index) {
  return yaml_writer::write(index);
}

result<bundle_index> parse_index(const std::string& text,
                                 const std::string& file) {
  bundle_index out;
  if (auto done = yaml_reader{file}.read(text, out); !done)
    return done.failure();
  for (auto& x : out.models) {
    if (auto fine = check_name("model", x.model); !fine)
      return std::move(fine.failure()).within(file);
    if (!sha256_from_hex(x.content))
      return error{ec::bad_config,
                   file + ": " + x.model + ": content is " + shown(x.content)
                     + ", expected a SHA-256",
                   {}};
  }
  return out;
}

std::string folder_of(const model_info& model) {
  return model.model + "/" + std::to_string(model.version);
}

void read_index(object_store& from,
                std::function<void(result<bundle_index>)> done) {
  from.get({index_file, 0, 0, most_index_bytes},
           [done = std::move(done)](const result<shared_bytes>& x) {
             if (!x)
               return done(x.failure());
             done(parse_index(std::string{x->text()}, index_file));
           });
}

} // namespace millrace
