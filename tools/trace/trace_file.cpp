// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_file.hpp"

#include <algorithm>

namespace millrace {

namespace {

std::string harmless(std::string x) {
  for (auto& c : x)
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\')
      c = '\'';
  return x;
}

} // namespace

std::string trace_member(const std::string& key, const std::string& text) {
  return "\"" + key + "\":\"" + harmless(text) + "\"";
}

trace_file::trace_file(std::ostream& out) : out_(out) {
  out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
}

trace_file::~trace_file() {
  out_ << "\n]}\n";
}

std::ostream& trace_file::next() {
  if (!std::exchange(first_, false))
    out_ << ",\n";
  return out_;
}

std::ostream& trace_file::event(char kind, size_t pid, size_t tid,
                                const std::string& name, microseconds at) {
  return next() << "{\"ph\":\"" << kind << "\",\"pid\":" << pid
                << ",\"tid\":" << tid << "," << trace_member("name", name)
                << ",\"ts\":" << at.count();
}

void trace_file::name_process(size_t pid, const std::string& name) {
  next() << "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" << pid
         << ",\"args\":{" << trace_member("name", name) << "}}";
}

void trace_file::name_thread(size_t pid, size_t tid, const std::string& name) {
  next() << "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" << pid
         << ",\"tid\":" << tid << ",\"args\":{" << trace_member("name", name)
         << "}}";
}

void trace_file::slice(size_t pid, size_t tid, const std::string& name,
                       microseconds from, microseconds to,
                       const std::string& args) {
  event('X', pid, tid, name, from)
    << ",\"dur\":" << std::max<int64_t>(0, (to - from).count()) << ",\"args\":{"
    << args << "}}";
}

void trace_file::flow(arrow what, size_t pid, size_t tid, uint64_t id,
                      microseconds at) {
  event(static_cast<char>(what), pid, tid, "runs", at)
    << ",\"cat\":\"flow\",\"id\":" << id
    << (what == arrow::begins ? "}" : ",\"bp\":\"e\"}");
}

void trace_file::instant(size_t pid, size_t tid, const std::string& name,
                         microseconds at) {
  event('i', pid, tid, name, at) << ",\"s\":\"g\"}";
}

size_t trace_rows::take(microseconds from, microseconds to) {
  size_t row = used_;
  if (!busy_.empty() && busy_.top().first <= from) {
    row = busy_.top().second;
    busy_.pop();
  } else {
    ++used_;
  }
  busy_.emplace(to, row);
  return row;
}

} // namespace millrace
