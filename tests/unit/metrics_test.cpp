// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "runtime/build_description.hpp"
#include "runtime/metrics.hpp"

using namespace millrace;

namespace {

bool has(metrics& x, const std::string& line) {
  return x.text().find("\n" + line + "\n") != std::string::npos;
}

bool mentions(metrics& x, const std::string& word) {
  return x.text().find(word) != std::string::npos;
}

} // namespace

TEST_CASE("metrics: the text has each family once with type and help") {
  metrics m;
  auto answers = m.requests({"digits", 3}, "acme", "ok");
  auto times = m.request_seconds({"digits", 3}, phase::total);
  answers.add(2);
  times.observe(0.003);
  CHECK(has(m, "# TYPE millrace_requests_total counter"));
  CHECK(has(m, R"(millrace_requests_total{model="digits",status="ok",)"
               R"(tenant="acme",version="3"} 2)"));
  CHECK(mentions(m, R"(version="3",le="0.005"} 1)"));
}

TEST_CASE("metrics: every series has the label of its node") {
  metrics m{recording::on, "alpha"};
  m.peers().set(2);
  auto waiting = m.queue_length({"digits", 1});
  CHECK(has(m, R"(millrace_peers{node="alpha"} 2)"));
  CHECK(has(
    m, R"(millrace_queue_length{model="digits",version="1",node="alpha"} 0)"));
}

TEST_CASE("metrics: without recording the text has no series") {
  metrics m{recording::off};
  auto answers = m.requests({"digits"}, "", "ok");
  answers.add(2);
  m.peers().set(3);
  m.request_seconds({"digits"}, phase::total).observe(0.003);
  CHECK(m.text().empty());
  CHECK_FALSE(m.is_on());
}

TEST_CASE("metrics: a gauge of a model is removed with its last handle") {
  metrics m;
  {
    auto wanted = m.model_replicas_wanted("digits");
    auto other = m.model_replicas_wanted("digits");
    wanted.set(1);
    CHECK(has(m, R"(millrace_model_replicas_wanted{model="digits"} 1)"));
  }
  CHECK_FALSE(mentions(m, "digits"));
}

TEST_CASE("metrics: the next scrape has the last value of a counter of a "
          "removed model and later ones have no series") {
  metrics m;
  {
    auto answers = m.requests({"digits"}, "acme", "ok");
    m.text();
    answers.add(7);
  }
  CHECK(has(m, R"(millrace_requests_total{model="digits",status="ok",)"
               R"(tenant="acme"} 7)"));
  CHECK_FALSE(mentions(m, "digits"));
}

TEST_CASE(
  "metrics: a model that returns between two scrapes continues its counter") {
  metrics m;
  m.requests({"digits"}, "acme", "ok").add(7);
  m.text();
  auto again = m.requests({"digits"}, "acme", "ok");
  again.add(1);
  for (int scrape = 0; scrape < 2; ++scrape)
    CHECK(mentions(m, R"(status="ok",tenant="acme"} 8)"));
}

TEST_CASE("metrics: a handle of a removed series can still be used") {
  auto m = std::make_unique<metrics>();
  auto answers = m->requests({"digits"}, "acme", "ok");
  m.reset();
  answers.add(1);
}

TEST_CASE(
  "metrics: 1100 removed models leave few series even without a scrape") {
  metrics m;
  for (int i = 0; i < 1100; ++i) {
    auto name = "invented-" + std::to_string(i);
    m.model_replicas_wanted(name).set(1);
    for (auto p : {phase::queue, phase::execute, phase::total})
      m.request_seconds({name, 1}, p).observe(1);
  }
  auto first = m.text();
  CHECK(first.size() < 300'000);
  CHECK(std::count(first.begin(), first.end(), '\n') < 3'000);
  CHECK_FALSE(mentions(m, "invented"));
}

TEST_CASE("metrics: the build info has all its labels") {
  metrics m;
  m.build_info("1.2.3", "0123456789ab", "1.13.1", "none").set(1);
  CHECK(has(m, R"(millrace_build_info{commit="0123456789ab",cuda="none",)"
               R"(libtorch="1.13.1",version="1.2.3"} 1)"));
  CHECK_FALSE(this_build().version.empty());
  CHECK_FALSE(this_build().commit.empty());
}

TEST_CASE("metrics: labels have no control characters") {
  metrics m;
  auto answers = m.requests({"a\x1b[2J\u009b"
                             "31m"},
                            "default", "ok");
  answers.add(1);
  CHECK(m.text().find(R"(model="a?[2J?31m",status="ok")") != std::string::npos);
}
