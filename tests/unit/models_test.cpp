// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <sys/stat.h>

#include "actors/cache/cache.hpp"
#include "models/bundle_store.hpp"
#include "models/crossing.hpp"
#include "models/npy.hpp"
#include "models/safetensors.hpp"
#include "runtime/hash.hpp"
#include "runtime/sizes.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("tensor: the number of bytes must match the extents") {
  auto data = shared_bytes::copy_of("12345678");
  CHECK(tensor::make(dtype::f32, {1, 2}, data));
  CHECK(tensor::make(dtype::f64, {}, data));
  CHECK(tensor::make(dtype::f32, {1, 3}, data).failure().text
        == "F32[1, 3] needs 12 bytes, got 8");
}

TEST_CASE("tensor: hostile extents do not overflow") {
  // The product of these extents is 4 modulo 2^64.
  shape evil{4194305, 4194305, 211106198978564};
  CHECK(dense_bytes(dtype::u8, evil).failure().code == ec::too_large);
  CHECK(dense_bytes(dtype::f32, {-1, 4}).failure().code == ec::bad_request);
  CHECK(*dense_bytes(dtype::f32, {0, INT64_MAX}) == 0);
  std::vector<int64_t> many(65, 1);
  CHECK(shape::of(many).failure().code == ec::too_large);
}

TEST_CASE("signature: inputs are checked before they reach a backend") {
  auto s = row_signature();
  CHECK(*check_inputs(s, tensor_list{floats({3, 4})}) == 3);
  CHECK(check_inputs(s, {}).failure().text
        == "expected 1 input(s) (x:F32[-1, 4]), got 0");
  CHECK(check_inputs(s, tensor_list{floats({3, 5})}).failure().text
        == "expected x:F32[-1, 4], got F32[3, 5]");
  auto wrong = *tensor::zeros(dtype::i32, {3, 4});
  CHECK_FALSE(check_inputs(s, tensor_list{wrong}));
  CHECK_FALSE(check_inputs(s, tensor_list{*tensor::zeros(dtype::f32, {0, 4})}));
}

TEST_CASE("signature: all inputs have the same number of rows") {
  auto s = row_signature();
  s.inputs.push_back({"mask", dtype::f32, {-1}});
  CHECK(check_inputs(s, tensor_list{floats({2, 4}), floats({2})}));
  CHECK_FALSE(check_inputs(s, tensor_list{floats({2, 4}), floats({3})}));
}

TEST_CASE("signature: an input is written NAME:DTYPE:EXTENTS") {
  auto x = parse_tensor_spec("image:F32:-1,3,?,224");
  REQUIRE(x);
  CHECK(x->extents == std::vector<int64_t>{-1, 3, -1, 224});
  for (auto text : {"image", "image:F32", "image:float:1", ":F32:1",
                    "a:F32:1,x", "a:F32:-2", "a:F32:1,1,1,1,1,1,1,1,1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_tensor_spec(text));
  }
}

namespace {

shared_bytes safetensors_of(const std::string& header, size_t data) {
  uint64_t n = header.size();
  std::string out(reinterpret_cast<const char*>(&n), sizeof n);
  return shared_bytes::copy_of(out + header + std::string(data, 'x'));
}

} // namespace

TEST_CASE("safetensors: written tensors are read in place") {
  std::vector<named_tensor> xs{
    {"b", floats({2, 3})}, {"a", floats({})}, {"empty", floats({0, 4})}};
  auto file = shared_bytes::copy_of(*write_safetensors(xs));
  auto back = read_safetensors(file);
  REQUIRE(back);
  REQUIRE(back->size() == 3);
  CHECK((*back)[0].name == "b");
  CHECK((*back)[0].value == xs[0].value);
  auto* p = (*back)[0].value.data.data();
  CHECK(p > file.data());
  // A mapped file begins at a page, so 64 bytes into the file are 64-byte
  // aligned.
  CHECK((p - file.data()) % 64 == 0);
}

TEST_CASE("safetensors: a misaligned tensor of a foreign file is copied") {
  std::string header = R"({"a":{"dtype":"U8","shape":[3],)"
                       R"("data_offsets":[0,3]},"b":{"dtype":"I64",)"
                       R"("shape":[2],"data_offsets":[3,19]}})";
  header.resize(rounded_up(header.size(), 8), ' ');
  auto back = read_safetensors(safetensors_of(header, 19));
  REQUIRE(back);
  auto& b = (*back)[1].value;
  CHECK(reinterpret_cast<uintptr_t>(b.data.data()) % sizeof(int64_t) == 0);
  CHECK(b.data.text() == std::string(16, 'x'));
}

TEST_CASE("safetensors: metadata is skipped once") {
  auto tensor = std::string{R"("a":{"dtype":"U8","shape":[1],)"
                            R"("data_offsets":[0,1]})"};
  auto meta = std::string{R"("__metadata__":{"format":"pt"})"};
  CHECK(
    read_safetensors(safetensors_of("{" + meta + "," + tensor + "}", 1))->size()
    == 1);
  for (auto bad : {meta + "," + meta, std::string{R"("__metadata__":{"a":1})"},
                   std::string{R"("__metadata__":{"a":{}})"},
                   std::string{R"("__metadata__":3)"}}) {
    CAPTURE(bad);
    CHECK_FALSE(
      read_safetensors(safetensors_of("{" + bad + "," + tensor + "}", 1)));
  }
}

TEST_CASE("P11: a deeply nested header is refused at once") {
  for (auto x : {R"({"a":)", "[", R"({"a":{"dtype":[)"}) {
    std::string header;
    for (int i = 0; i < 1'000'000; ++i)
      header += x;
    CHECK_FALSE(read_safetensors(safetensors_of(header, 0)));
  }
}

TEST_CASE("safetensors: hostile headers are refused") {
  auto refused = [](const std::string& header, size_t data) {
    auto x = read_safetensors(safetensors_of(header, data));
    CAPTURE(header);
    CHECK_FALSE(x);
  };
  refused("", 0);
  refused("[]", 0);
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,5]}})", 5);
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8);
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8);
  refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4);
  refused(R"({"a":{"dtype":"O","shape":[1],"data_offsets":[0,4]}})", 4);
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
          R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
          4);
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
          R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
          6);
  refused(R"({"a":{"dtype":"U8","shape":[4194305,4194305,211106198978564],)"
          R"("data_offsets":[0,4]}})",
          4);
  refused(R"({"a":1})", 0);
  refused(R"({"a":{}})", 0);
  refused(R"({}{})", 0);
  refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1);
  refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1);
  refused(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1);
  refused(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1);
  refused(R"({"a":{"dtype":"U8","shape":{},"data_offsets":[0,1]}})", 1);
  refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],)"
          R"("data_offsets":[0,1]}})",
          1);
  refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1);
  refused(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],)"
          R"("data_offsets":[0,1]}})",
          1);
  refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1);
  CHECK_FALSE(read_safetensors(shared_bytes::copy_of("1234567")));
  std::string longer(8, '\xff');
  CHECK_FALSE(read_safetensors(shared_bytes::copy_of(longer)));
}

TEST_CASE("npy: a written array is read as the same") {
  auto x = floats({2, 3});
  CHECK(*read_npy(shared_bytes::copy_of(*write_npy(x))) == x);
  auto line = floats({5});
  CHECK(*read_npy(shared_bytes::copy_of(*write_npy(line))) == line);
}

TEST_CASE("npy: pickles and Fortran order and truncated files are refused") {
  auto good = *write_npy(floats({2, 3}));
  auto with = [&](std::string_view from, std::string_view to) {
    auto text = good;
    text.replace(text.find(from), from.size(), to);
    return read_npy(shared_bytes::copy_of(text));
  };
  CHECK_FALSE(with("'<f4'", "'|O' "));
  CHECK_FALSE(with("False", "True "));
  CHECK_FALSE(with("(2, 3)", "(2, 9)"));
  CHECK_FALSE(read_npy(shared_bytes::copy_of(good.substr(0, 40))));
  CHECK_FALSE(read_npy(shared_bytes::copy_of("PK")));
}

namespace {

manifest small_manifest(uint64_t version) {
  manifest out = make_bundle("m", version)->info;
  out.layers[0] = {"model", "layers/model.pt",
                   4,       sha256_hex(shared_bytes::copy_of("code").view()),
                   "",      0,
                   0,       {},
                   {},      {}};
  return out;
}

const std::map<std::string, std::string> small_files{
  {"layers/model.pt", "code"}};

} // namespace

TEST_CASE("bundle: a printed manifest is read as the same") {
  auto x = small_manifest(3);
  x.accuracy = accuracy_info{0.5, "top-1", "held out"};
  x.labels = {"a", "b c", "1"};
  auto y = parse_manifest(print_manifest(x), "f");
  REQUIRE(y);
  CHECK(*y == x);
}

TEST_CASE("bundle: an invalid manifest is refused with file and line and key") {
  auto text = print_manifest(small_manifest(1));
  auto with = [&](const std::string& from, const std::string& to) {
    auto changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return parse_manifest(changed, "model.yaml").failure().text;
  };
  CHECK(with("format: 2", "format: 3").find("format 3 is not known")
        != std::string::npos);
  CHECK(with("version: 1", "version: one")
        == "model.yaml:3: version: expected a whole number, found 'one'");
  CHECK(with("layers/model.pt", "../../etc/passwd").find("inside the bundle")
        != std::string::npos);
  CHECK(with("layers/model.pt", "/etc/passwd").find("inside the bundle")
        != std::string::npos);
  CHECK(with("layers:", "layerz:").find("unknown key 'layerz'")
        != std::string::npos);
}

TEST_CASE("P11: the paths of a manifest stay inside its bundle") {
  auto with = [](const std::string& path) {
    auto x = small_manifest(1);
    x.layers[0].code = path;
    return parse_manifest(print_manifest(x), "f");
  };
  CHECK(with("layers/model.pt"));
  for (std::string path :
       {"../x", "/x", "a/../../x", "a//b", "./x", "", "C:\\x", "%2e%2e/x",
        "a\\..\\x", "x\n", "\xc3\xa9"}) {
    CAPTURE(path);
    CHECK_FALSE(with(path));
  }
  CHECK_FALSE(with(std::string(4096, 'x')));
}

TEST_CASE("P11: impossible sizes in a manifest are refused") {
  auto refused = [](auto change) {
    auto x = small_manifest(1);
    REQUIRE(parse_manifest(print_manifest(x), "f"));
    change(x);
    return !parse_manifest(print_manifest(x), "f");
  };
  CHECK(refused([](auto& x) { x.layers[0].parameters = UINT64_MAX; }));
  CHECK(refused([](auto& x) {
    x.layers[0].parameters = 1;
    x.layers.push_back(x.layers[0]);
    x.layers[1].parameters = UINT64_MAX; // the sum of both overflows
  }));
  CHECK(refused([](auto& x) { x.signature.batch_axis = 9; }));
  CHECK(refused([](auto& x) { x.signature.batch_axis = -2; }));
  CHECK(refused([](auto& x) { x.signature.outputs.clear(); }));
  CHECK(refused([](auto& x) { x.signature.outputs[0].extents.resize(9, 1); }));
  CHECK(refused([](auto& x) { x.signature.inputs[0].extents = {-1, -7}; }));
  CHECK(refused([](auto& x) {
    x.signature.inputs[0].extents = {-1, INT64_MAX, INT64_MAX};
  }));
  CHECK(refused([](auto& x) {
    x.signature.outputs[0].extents = {-1, 1 << 20, 1 << 20};
  }));
}

TEST_CASE("P11: a link in a bundle is not followed") {
  temporary_directory dir;
  bundle_store store{dir.path()};
  auto directory = store.add(small_manifest(1), small_files);
  REQUIRE(directory);
  auto code = *directory + "/layers/model.pt";
  auto elsewhere = dir / "elsewhere";
  std::filesystem::rename(code, elsewhere);
  SUBCASE("a file") {
    std::filesystem::create_symlink(elsewhere, code);
  }
  SUBCASE("a folder") {
    std::filesystem::create_directory(dir / "real");
    std::filesystem::rename(elsewhere, dir / "real/model.pt");
    std::filesystem::remove_all(*directory + "/layers");
    std::filesystem::create_directory_symlink(dir / "real",
                                              *directory + "/layers");
  }
  SUBCASE("a pipe") {
    REQUIRE(::mkfifo(code.c_str(), 0600) == 0);
  }
  CHECK_FALSE(open_bundle(*directory, verify::hashes));
}

TEST_CASE("P8: a bundle with one wrong byte is refused") {
  temporary_directory dir;
  bundle_store store{dir.path()};
  auto directory = store.add(small_manifest(1), small_files);
  REQUIRE(directory);
  CHECK(open_bundle(*directory, verify::hashes));
  auto wrong = std::string{"c0de"};
  REQUIRE(write_file(*directory + "/layers/model.pt",
                     std::as_bytes(std::span{wrong})));
  CHECK(open_bundle(*directory, verify::sizes));
  CHECK(open_bundle(*directory, verify::hashes).failure().text.find("SHA-256")
        != std::string::npos);
}

TEST_CASE("bundle_store: a version is found by number or alias or default") {
  temporary_directory dir;
  bundle_store store{dir.path()};
  REQUIRE(store.add(small_manifest(1), small_files));
  REQUIRE(store.add(small_manifest(2), small_files));
  CHECK(*store.find("m", "") == dir / "m/1");
  CHECK(*store.find("m", "2") == dir / "m/2");
  REQUIRE(store.set_alias("m", "default", 2));
  CHECK(*store.find("m", "default") == dir / "m/2");
  CHECK(*store.rollback("m", "default") == 1);
  CHECK(*store.find("m", "") == dir / "m/1");
  CHECK_FALSE(store.rollback("m", "default"));
  CHECK_FALSE(store.set_alias("m", "default", 7));
  CHECK(store.find("m", "9").failure().code == ec::unknown_model);
  CHECK(store.find("other", "").failure().text.find("it holds m")
        != std::string::npos);
}

TEST_CASE(
  "bundle_store: a bundle that cannot be put in place leaves no files") {
  temporary_directory dir;
  bundle_store store{dir.path()};
  REQUIRE(store.add(small_manifest(1), small_files));
  auto wrong = small_files;
  wrong["x"] = wrong["x/y"] = "a file and a directory";
  CHECK_FALSE(store.add(small_manifest(2), wrong));
  CHECK(store.add(small_manifest(1), small_files).failure().code
        == ec::conflict);
  std::set<std::string> names;
  for (auto& x : std::filesystem::directory_iterator{dir / "m"})
    names.insert(x.path().filename());
  CHECK(names == std::set<std::string>{"1", "aliases.yaml"});
  auto other = small_manifest(1);
  other.name = "other";
  CHECK_FALSE(store.add(other, wrong));
  CHECK_FALSE(std::filesystem::exists(dir / "other"));
}

TEST_CASE("bundle_store: a bundle that cannot be read is broken and other "
          "files are not") {
  temporary_directory dir;
  bundle_store store{dir.path()};
  auto fine = small_manifest(1);
  REQUIRE(store.add(fine, small_files));
  std::filesystem::create_symlink("loop", dir / "loop");
  std::filesystem::create_symlink("loop", dir / (fine.name + "/loop"));
  CHECK(store.list().good.size() == 1);
  CHECK(store.list().broken.empty());
  auto model = dir / fine.name;
  std::filesystem::copy(model + "/" + std::to_string(fine.version),
                        model + "/77",
                        std::filesystem::copy_options::recursive);
  REQUIRE(store.list().broken.size() == 1);
  CHECK(store.list().broken[0].text.find("expected 77 as its directory does")
        != std::string::npos);
  std::string junk = "aliases: {";
  REQUIRE(write_file(model + "/aliases.yaml", std::as_bytes(std::span{junk})));
  CHECK(store.list().good.empty());
  CHECK_FALSE(store.find(fine.name, ""));
}

TEST_CASE("bundle_store: a version is written only once") {
  temporary_directory dir;
  bundle_store store{dir.path()};
  REQUIRE(store.add(small_manifest(1), small_files));
  CHECK(store.add(small_manifest(1), small_files).failure().code
        == ec::conflict);
}

TEST_CASE("FP-61: versions with different layers have different costs and "
          "versions with different parameters the same") {
  manifest x;
  x.name = "m";
  for (auto name : {"first", "second"}) {
    layer_info layer;
    layer.name = name;
    layer.code_sha256 = "c0de";
    layer.parameters_sha256 = "1";
    layer.parameter_bytes = 100;
    x.layers.push_back(layer);
  }
  auto key = describe(x, {}).layers_key;
  CHECK(key.size() == 16);
  auto other = x;
  other.version = 2;
  other.layers[1].parameters_sha256 = "2";
  CHECK(describe(other, {}).layers_key == key);
  SUBCASE("another code") {
    other.layers[1].code_sha256 = "c0ffee";
  }
  SUBCASE("another size") {
    other.layers[1].parameter_bytes = 101;
  }
  SUBCASE("one layer less") {
    other.layers.pop_back();
  }
  CHECK(describe(other, {}).layers_key != key);
}

TEST_CASE("QU-08: the graph of a model's stages has an edge for each value "
          "even past other stages") {
  manifest x;
  auto add = [&](std::vector<std::string> takes, const char* gives) {
    layer_info layer;
    layer.takes = std::move(takes);
    if (gives != nullptr)
      layer.gives.push_back({gives, dtype::f32, {1}, {}});
    x.layers.push_back(layer);
  };
  add({"image"}, "u");
  add({"u"}, "v");
  add({"v", "image"}, "w");
  add({"u", "w"}, nullptr);
  using set = std::set<size_t>;
  auto each = stage_graph(x, std::array<size_t, 3>{1, 2, 3});
  REQUIRE(each.size() == 4);
  CHECK(each[0].takes_from == set{}); // the model's inputs belong to no stage
  CHECK(each[0].gives_to == set{1, 3});
  CHECK(each[1].takes_from == set{0});
  CHECK(each[1].gives_to == set{2});
  CHECK(each[2].takes_from == set{1});
  CHECK(each[3].takes_from == set{0, 2});
  CHECK(each[3].gives_to == set{});
  auto halves = stage_graph(x, std::array<size_t, 1>{2});
  CHECK(halves[1].takes_from == set{0});
  auto whole = stage_graph(x, {});
  REQUIRE(whole.size() == 1);
  CHECK(whole[0].takes_from == set{});
}
