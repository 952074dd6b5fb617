// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hostile_files.hpp"

#include <cstdint>
#include <cstring>

using namespace std::string_literals;

namespace millrace::test {

namespace {

using files = std::vector<hostile_file>;

std::string weights_of(const std::string& header, size_t data) {
  uint64_t n = header.size();
  std::string out(sizeof n, '\0');
  std::memcpy(out.data(), &n, sizeof n);
  return out + header + std::string(data, 'x');
}

std::string tensor_of(const std::string& name, const std::string& dtype,
                      const std::string& shape, const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape
         + R"(],"data_offsets":[)" + offsets + "]}";
}

std::string one(const std::string& dtype, const std::string& shape,
                const std::string& offsets) {
  return "{" + tensor_of("a", dtype, shape, offsets) + "}";
}

std::string two(const std::string& first, const std::string& second) {
  return "{" + tensor_of("a", "U8", "4", first) + ","
         + tensor_of("b", "U8", "4", second) + "}";
}

} // namespace

files hostile_weights() {
  const auto length = "tensor 'a' has a length that is not its shape times its"
                      " dtype"s;
  const auto outside = "tensor 'a' lies outside the file"s;
  const auto gap = " leaves a hole or overlaps another"s;
  const auto no_size = "tensor 'a' has an extent that is no size"s;
  const auto dtype = "tensor 'a' has an unknown dtype"s;
  const auto long_header = " is over 16 MiB or over the file"s;
  auto header_of = [&](uint64_t n) {
    std::string out(8, '\0');
    std::memcpy(out.data(), &n, 8);
    return hostile_file{"header of " + std::to_string(n), out + "{}",
                        "the header's length of " + std::to_string(n)
                          + long_header};
  };
  return {
    {"product overflow",
     weights_of(one("U8", "4194305,4194305,211106198978564", "0,4"), 4),
     length},
    {"zero dimension", weights_of(one("F32", "0,4", "0,4"), 4), length},
    {"negative dimension", weights_of(one("F32", "-1", "0,4"), 4), no_size},
    {"dimension of 2^63",
     weights_of(one("U8", "9223372036854775808", "0,4"), 4), no_size},
    {"dimension of half", weights_of(one("U8", "0.5", "0,4"), 4), no_size},
    {"65 dimensions",
     weights_of(one(
                  "U8",
                  [] {
                    std::string ones = "1";
                    for (int i = 0; i < 64; ++i)
                      ones += ",1";
                    return ones;
                  }(),
                  "0,1"),
                1),
     "tensor 'a' has too many dimensions"},
    {"dtype unknown", weights_of(one("F33", "1", "0,4"), 4), dtype},
    {"dtype of Python objects", weights_of(one("O", "1", "0,4"), 4), dtype},
    {"dtype of texts", weights_of(one("BYTES", "1", "0,4"), 4), dtype},
    {"size over shape times dtype", weights_of(one("F32", "1", "0,5"), 5),
     length},
    {"size under shape times dtype", weights_of(one("F32", "2", "0,4"), 4),
     length},
    {"offsets outside", weights_of(one("U8", "5", "0,5"), 4), outside},
    {"offsets of 2^64 - 1",
     weights_of(one("U8", "0", "18446744073709551615,18446744073709551615"), 4),
     outside},
    {"offsets that end before they begin", weights_of(one("U8", "1", "4,3"), 4),
     outside},
    {"negative offsets", weights_of(one("U8", "4", "-4,0"), 4),
     "tensor 'a' has offsets that are no sizes"},
    {"one offset", weights_of(one("U8", "4", "4"), 4),
     "tensor 'a' lacks dtype, shape or data_offsets"},
    {"offsets that overlap", weights_of(two("0,4", "2,6"), 6),
     "tensor 'b'" + gap},
    {"offsets that are the same", weights_of(two("0,4", "0,4"), 4),
     "tensor 'b'" + gap},
    {"hole before the first", weights_of(one("U8", "4", "4,8"), 8),
     "tensor 'a'" + gap},
    {"hole between", weights_of(two("0,4", "5,9"), 9), "tensor 'b'" + gap},
    {"bytes behind the last", weights_of(one("U8", "4", "0,4"), 8),
     "bytes follow the last tensor"},
    {"tensor twice",
     weights_of("{" + tensor_of("a", "U8", "0", "0,0") + ","
                  + tensor_of("a", "U8", "0", "0,0") + "}",
                0),
     "the header names 'a' twice"},
    {"name of a kilobyte",
     weights_of("{" + tensor_of(std::string(1024, 'n'), "U8", "0", "0,0") + "}",
                0),
     "tensor '" + std::string(40, 'n')
       + "...' has a name of more than 512"
         " bytes"},
    {"no object", weights_of("[]", 0), "the header is not a JSON object"},
    {"shorter than a length", "1234567", "the file is shorter than 8 bytes"},
    header_of(3),
    header_of(17u << 20),
    header_of(UINT64_MAX),
  };
}

namespace {

constexpr auto code_sha256 =
  "5694d08a2e53ffcae0c3103e5ad6f6076abd960eb1f8a56577040bc1028f702b";

/// The good manifest with one part replaced.
std::string with(const std::string& from, const std::string& to) {
  auto out = good_manifest();
  return out.replace(out.find(from), from.size(), to);
}

/// A good manifest of two layers with these layer entries.
std::string two_layers(const std::string& first, const std::string& second) {
  std::string end = code_sha256;
  return with(end, end + ", " + first)
         + "  - {name: other, code: layers/model.pt, " + second + "}\n";
}

/// Hostile manifests: tensors passed between layers.
files passing() {
  auto many = [] {
    std::string out;
    for (int i = 0; i < 65; ++i)
      out += ", {name: h" + std::to_string(i) + "}";
    return "gives: [" + out.substr(2) + "]";
  };
  auto passes = [](const std::string& size) {
    return two_layers("gives: [{name: h, " + size + "}]", "takes: [h]");
  };
  auto refused = [](const std::string& why) {
    return "model.yaml: layers: 'model' gives 'h', which " + why;
  };
  return {
    {"an only layer that names what it takes",
     with(code_sha256, code_sha256 + ", takes: [x]"s),
     "model.yaml: layers: 'model' is the whole model, and must not name"
     " inputs or outputs"},
    {"takes what nobody gives", two_layers("gives: [{name: h}]", "takes: [g]"),
     "model.yaml: layers: 'other' takes 'g', which no earlier layer gives"},
    {"takes what comes later",
     two_layers("takes: [h], gives: [{name: h}]", "takes: []"),
     "model.yaml: layers: 'model' takes 'h', which no earlier layer gives"},
    {"gives what is there", two_layers("gives: [{name: x}]", "takes: [x]"),
     "model.yaml: layers: 'model' gives 'x', which exists already"},
    {"gives one thing twice",
     two_layers("gives: [{name: h}, {name: h}]", "takes: [h]"),
     "model.yaml: layers: 'model' gives 'h', which exists already"},
    {"gives nothing", two_layers("takes: [x]", "takes: [x]"),
     "model.yaml: layers: 'model' gives nothing to later layers"},
    {"the last gives",
     two_layers("gives: [{name: h}]", "takes: [h], gives: [{name: y}]"),
     "model.yaml: layers: 'other' is the last, and must not name its outputs"},
    {"gives more than a stage has", two_layers(many(), "takes: [h0]"),
     "model.yaml: layers: 'model' takes or gives more than 64 tensors"},
    {"gives what has too many axes", passes("extents: [1,1,1,1,1,1,1,1,1]"),
     refused("has more axes than a tensor can have")},
    {"gives what rows make longer in too many axes",
     passes("extents: [1], per_row: [1,0,0,0,0,0,0,0,0]"),
     refused("has more axes than a tensor can have")},
    {"gives what rows make longer in other axes than it has",
     passes("extents: [1, 2], per_row: [1]"),
     refused("has 2 axes, and rows add to 1")},
    {"gives what is shorter than nothing", passes("extents: [-1]"),
     refused("has extents that no tensor has")},
    {"gives what rows make shorter", passes("extents: [1], per_row: [-1]"),
     refused("has extents that no tensor has")},
    {"gives what rows make longer than can be",
     passes("extents: [1], per_row: [9223372036854775807]"),
     refused("has extents that no tensor has")},
    {"gives rows of more than a gibibyte", passes("extents: [268435457]"),
     refused("has rows of more than 1 GiB")},
    {"gives more than can be counted",
     passes("extents: [1099511627776, 1099511627776]"),
     refused("has rows of more than 1 GiB")},
    {"samples out of the bundle", good_manifest() + "samples: {file: ../x}\n",
     "model.yaml: samples: file '../x' is not a plain path inside the bundle"},
  };
}

files paths() {
  files out;
  auto add = [&](std::string item, const std::string& yaml,
                 const std::string& shown) {
    auto says = [&](const char* whose) {
      return "model.yaml: " + (whose + (" '" + shown))
             + "' is not a plain path inside the bundle";
    };
    out.push_back({"code " + item, with("layers/model.pt", "\"" + yaml + "\""),
                   says("layers: code")});
    if (!yaml.empty()) // a bundle may have no weights
      out.push_back({"weights " + item,
                     good_manifest() + "weights: {file: \"" + yaml + "\"}\n",
                     says("weights: file")});
  };
  auto plain = [&](std::string item, const std::string& path) {
    add(std::move(item), path, path);
  };
  plain("../", "../model.pt");
  plain("../ further in", "layers/../../model.pt");
  plain("absolute", "/etc/passwd");
  plain("two slashes", "layers//model.pt");
  plain("its own folder", "./layers/model.pt");
  plain("a folder", "layers/");
  plain("nothing", "");
  plain("%2e%2e", "%2e%2e/model.pt");
  plain("hidden", ".model.pt");
  plain("upper case", "layers/Model.pt");
  add("C:\\", "C:\\\\model.pt", "C:\\x5cmodel.pt");
  add("backslashes", "..\\\\model.pt", "..\\x5cmodel.pt");
  add("NUL", "layers\\0/model.pt", "layers\\x00/model.pt");
  add("line end", "layers/model.pt\\n", "layers/model.pt\\x0a");
  add("Unicode, composed", "\\xe9.pt", "\\xc3\\xa9.pt");
  add("Unicode, decomposed", "e\\u0301.pt", "e\\xcc\\x81.pt");
  add("Unicode that looks like /", "..\\u2215model.pt",
      "..\\xe2\\x88\\x95model.pt");
  auto name = std::string(4096, 'n');
  add("4,096 bytes", name, name.substr(0, 40) + "...");
  return out;
}

files sizes_and_hashes() {
  const auto hash = "layers/model.pt: its SHA-256 is not the manifest's"s;
  auto bytes = [](const std::string& x) {
    return with("code_bytes: 4", "code_bytes: " + x);
  };
  auto sha256 = [](const std::string& x) { return with(code_sha256, x); };
  auto whole = [](const std::string& found) {
    return "model.yaml:10: layers[0].code_bytes: expected a whole number, found"
           " '"
           + found + "'";
  };
  return {
    {"size of 2^63", bytes("9223372036854775808"),
     "model.yaml: layer 'model' has more than 256 MiB of code"},
    {"size of 2^64", bytes("18446744073709551616"),
     whole("18446744073709551616")},
    {"negative size", bytes("-1"), whole("-1")},
    {"size that is not the file's", bytes("5"),
     "layers/model.pt: has 4 bytes, expected 5"},
    {"weights of 2^63",
     good_manifest()
       + "weights: {file: layers/model.pt, bytes: 9223372036854775808}\n",
     "layers/model.pt: has 4 bytes, expected 9223372036854775808"},
    {"two files of one name", two_layers("gives: [{name: h}]", "code_bytes: 9"),
     "layers/model.pt: has 4 bytes, expected 9"},
    {"two files of one name, of one size",
     two_layers("gives: [{name: h}]",
                "code_bytes: 4, code_sha256: " + std::string(64, '0')),
     hash},
    {"parameters of 2^64 - 1",
     with("code_bytes: 4", "parameters: 18446744073709551615"),
     "model.yaml: layers: name more than 100000 parameters"},
    {"hash of none", sha256("\"\""), hash},
    {"hash of SHA-1", sha256(std::string(40, 'a')), hash},
    {"hash that is cut", sha256(std::string{code_sha256}.substr(0, 8)), hash},
    {"hash algorithm of its own", with("code_sha256", "code_md5"),
     "model.yaml:10: layers[0]: unknown key 'code_md5'; known here: name code"
     " code_bytes code_sha256 parameters_sha256 parameters parameter_bytes"
     " shares takes gives"},
  };
}

std::string repeated(size_t n, const std::string& x) {
  std::string out;
  for (size_t i = 0; i < n; ++i)
    out += x;
  return out;
}

/// "x: [TO, TO, ...]" where TO is an alias.
std::string list_of_aliases(const std::string& key, const std::string& item,
                            size_t n) {
  return key + ": [" + repeated(n, item + ", ") + "]\n";
}

files texts() {
  const auto aliases = "aliases repeat more than 1 MiB"s;
  auto start = "format: 2\nname: m\nversion: 1\n"s;
  auto labels = "description: &long " + std::string(100'000, 'd') + "\n";
  auto numbers = "    - {name: x, type: F32, extents: &long ["
                 + repeated(100'000, "0,") + "0]}\n";
  return {
    {"another format", with("format: 2", "format: 3"),
     "model.yaml: format 3 is not known (expected 1 or 2)"},
    {"version 0", with("version: 1", "version: 0"),
     "model.yaml: version is missing or 0"},
    {"name of a path", with("name: m\n", "name: ../m\n"),
     "model.yaml: model name '../m' must begin with a lower-case letter or a"
     " digit"},
    {"name of another case", with("name: m\n", "name: mM\n"),
     "model.yaml: model name 'mM' has a character other than a-z, 0-9, '.',"
     " '_' and '-'"},
    {"key twice", good_manifest() + "name: n\n",
     "model.yaml:11: 'name' is there twice"},
    {"unknown key", good_manifest() + "pipeline: [m]\n",
     "model.yaml:11: unknown key 'pipeline'; known here: format name version"
     " application description accuracy licence precision parent generator"
     " labels signature stateful layers weights samples warm_up"},
    {"no manifest", "", "model.yaml: expected a map, found nothing"},
    {"aliases that multiply a text",
     start + labels + list_of_aliases("labels", "*long", 20),
     "model.yaml:4: labels[11]: " + aliases},
    {"aliases that multiply a list",
     start + "signature:\n  inputs:\n" + numbers
       + repeated(20, "    - {name: x, type: F32, extents: *long}\n"),
     "model.yaml:6: signature.inputs[7].extents[25202]: " + aliases},
    {"alias of itself", start + "labels: &a [*a]\n",
     "model.yaml:4: labels[0]: expected a text, found a list"},
    {"depth of a million", start + "labels: " + std::string(1'000'000, '['),
     "model.yaml:4: is nested too deeply"},
  };
}

} // namespace

std::string good_manifest() {
  return "format: 2\n"
         "name: m\n"
         "version: 1\n"
         "signature:\n"
         "  inputs:\n"
         "    - {name: x, type: F32, extents: [-1, 4]}\n"
         "  outputs:\n"
         "    - {name: y, type: F32, extents: [-1, 2]}\n"
         "layers:\n"
         "  - {name: model, code: layers/model.pt, code_bytes: 4,"
         " code_sha256: "s
         + code_sha256 + "}\n";
}

files hostile_manifests() {
  auto out = paths();
  for (auto part : {passing, sizes_and_hashes, texts})
    for (auto& x : part())
      out.push_back(std::move(x));
  return out;
}

} // namespace millrace::test
