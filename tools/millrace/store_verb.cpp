// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include <fcntl.h>
#include <sys/stat.h>

#include "millrace/event_json.hpp"
#include "millrace/owner.hpp"
#include "millrace/print.hpp"
#include "runtime/bytes.hpp"
#include "runtime/file_descriptor.hpp"
#include "runtime/store/fact_journal.hpp"
#include "runtime/store/kept_log.hpp"
#include "runtime/store/store.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

struct store_options {
  std::string directory;
  std::string file;
  std::string model; ///< "digits-small.2": name and version
  bool may_be_cut = false;
};

struct found_journal {
  std::string path;
  std::string text;
  fact_content content;
  bool is_file = false; ///< a file other than a node's journal
  bool is_sealed = false;
};

/// The last record of a backup: the number of records before it. Without this
/// seal, a journal cut between two records would look complete.
std::string seal_of(uint64_t records) {
  return pack(fact{"backup", {"records", std::to_string(records), 1}});
}

/// The journal in a data directory, or in a file of its own, without a seal.
/// Safe while a node uses the journal: it only grows, or is replaced as a
/// whole.
result<found_journal> read_journal_at(const std::string& path) {
  std::error_code none;
  found_journal out;
  out.is_file = !std::filesystem::is_directory(path, none);
  out.path = out.is_file ? path : path + "/" + facts_file;
  auto text = read_file(out.path, facts_file_max);
  if (!text)
    return text.failure();
  out.text = std::move(*text);
  auto content = read_facts(out.text, out.path);
  if (content && !content->damage) {
    auto seal = seal_of(content->end.records - 1);
    out.is_sealed = out.text.ends_with(seal);
    if (out.is_sealed) {
      out.text.resize(out.text.size() - journal_overhead - seal.size());
      content = read_facts(out.text, out.path);
    }
  }
  if (!content)
    return content.failure();
  out.content = std::move(*content);
  return out;
}

/// A row's value in readable form; most values are MessagePack.
json readable(const std::string& value) {
  auto x = json::from_msgpack(value, true, false);
  if (!x.is_discarded() && x.is_structured())
    return x;
  return shown(value);
}

int run_check(const store_options& x, const common_options& common) {
  auto found = read_journal_at(x.directory);
  if (!found)
    return fail(common, found.failure());
  auto& content = found->content;
  size_t rows = 0;
  for (auto& [name, table] : content.rows.tables())
    rows += table.size();
  auto text = content.damage ? describe_damage(content) : "whole";
  auto fine = !content.damage;
  if (found->is_file && !found->is_sealed) {
    fine = false;
    text += "; the end of a backup is missing: it was cut, or is no backup";
  } else if (content.damage && content.damage->torn) {
    fine = true;
    text += "; a write is in progress, or was cut by a power failure";
  }
  if (common.json)
    std::cout << json_text(json{{"file", found->path},
                                {"schema", content.schema},
                                {"records", content.end.records},
                                {"rows", rows},
                                {"bytes", found->text.size()},
                                {"whole", fine},
                                {"state", text}})
              << std::endl;
  else
    std::cout << found->path << ": " << text << " (schema " << content.schema
              << ", " << content.end.records << " records, " << rows
              << " rows, " << format_bytes(found->text.size()) << ")"
              << std::endl;
  return fine ? exit_ok : exit_failed;
}

int list_rows(const store_options& x, const common_options& common) {
  auto found = read_journal_at(x.directory);
  if (!found)
    return fail(common, found.failure());
  auto all = json::array();
  std::vector<std::vector<std::string>> table{
    {"TABLE", "KEY", "VERSION", "VALUE"}};
  for (auto& [name, rows] : found->content.rows.tables())
    for (auto& [key, row] : rows) {
      auto value = readable(row.value);
      all.push_back({{"table", name},
                     {"key", key},
                     {"version", row.version},
                     {"value", value}});
      table.push_back({name, key, std::to_string(row.version), value.dump()});
    }
  if (common.json)
    std::cout << json_text(all) << std::endl;
  else
    print_table(table);
  if (auto& damage = found->content.damage; damage && !damage->torn)
    return fail(common, {ec::bad_config,
                         found->path + ": " + describe_damage(found->content)
                           + ": rows after the damage are not listed",
                         {}});
  return exit_ok;
}

json lines_json(const kept_lines& x) {
  return {{"lines", x.lines}, {"whole", x.wrong.empty()}};
}

json events_json(const kept_lines& x) {
  auto events = json::array();
  for (auto& line : x.lines)
    events.push_back(event_json(to_event(line)));
  return {{"events", events}, {"whole", x.wrong.empty()}};
}

/// Prints lines that a node has kept.
int print_kept(const std::string& directory, const common_options& common,
               json (*as_json)(const kept_lines&)) {
  auto found = read_kept_lines(directory);
  if (!found)
    return fail(common, found.failure());
  if (common.json)
    std::cout << json_text(as_json(*found)) << std::endl;
  else
    for (auto& line : found->lines)
      std::cout << printable(line) << "\n";
  if (found->wrong.empty())
    return exit_ok;
  return common.json ? int{exit_failed}
                     : fail(common, {ec::internal, found->wrong, {}});
}

int run_audit(const store_options& x, const common_options& common) {
  return print_kept(audit_directory(x.directory), common, lines_json);
}

int run_events(const store_options& x, const common_options& common) {
  return print_kept(event_directory(x.directory), common, events_json);
}

int report(const common_options& common, const std::string& file,
           const std::string& text) {
  if (common.json)
    std::cout << json_text(json{{"file", file}, {"ok", true}}) << std::endl;
  else
    std::cout << file << ": " << text << std::endl;
  return exit_ok;
}

int run_backup(const store_options& x, const common_options& common) {
  auto found = read_journal_at(x.directory);
  if (!found)
    return fail(common, found.failure());
  auto& content = found->content;
  if (content.damage && !content.damage->torn)
    return fail(common, {ec::bad_config,
                         found->path + ": " + describe_damage(content)
                           + ": a damaged journal is not backed up",
                         {}});
  if (found->is_sealed)
    return fail(common,
                {ec::bad_request, found->path + ": is a backup already", {}});
  if (std::filesystem::exists(x.file))
    return fail(
      common,
      {ec::bad_request, x.file + ": exists already; expected a new file", {}});
  ::umask(0077); // the same permissions as the journal
  auto records = content.end.records;
  auto text = found->text.substr(0, content.end.bytes)
              + next_record(content.end, seal_of(records));
  if (auto ok = write_file(x.file, std::as_bytes(std::span{text})); !ok)
    return fail(common, ok.failure());
  return report(common, x.file,
                "backup of " + std::to_string(records) + " records");
}

/// A free name in the directory for the replaced journal.
std::string free_name(const std::string& directory, const std::string& why) {
  for (int i = 1;; ++i) {
    auto name = std::string{facts_file} + "." + why + "-" + std::to_string(i);
    if (!std::filesystem::exists(directory + "/" + name))
      return name;
  }
}

/// Replaces the journal with the one that `by` reads, once no node can write to
/// it.
template <class F>
int replace(const store_options& x, const common_options& common,
            const std::string& why, F by) {
  file_descriptor folder{
    ::open(x.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder && !act_for_owner(folder.get()))
    return fail(common, {ec::unavailable,
                         x.directory + ": cannot act for its owner: "
                           + std::strerror(errno),
                         {}});
  auto where = open_directory(x.directory);
  if (!where)
    return fail(common, where.failure());
  result<found_journal> wanted = by();
  if (!wanted)
    return fail(common, wanted.failure());
  auto kept = free_name(x.directory, why);
  auto fresh = !std::filesystem::exists(x.directory + "/" + facts_file);
  auto found = fact_journal::replace(**where, facts_file, wanted->text, kept);
  if (!found)
    return fail(common, found.failure());
  return report(common, x.directory + "/" + facts_file,
                "has " + std::to_string(found->end.records) + " records"
                  + (fresh ? "" : "; the earlier journal is " + kept));
}

int run_restore(const store_options& x, const common_options& common) {
  auto found = read_journal_at(x.file);
  if (!found)
    return fail(common, found.failure());
  if (found->content.damage && !found->content.damage->torn)
    return fail(common, {ec::bad_config,
                         found->path + ": " + describe_damage(found->content),
                         {}});
  if (!found->is_sealed && !x.may_be_cut)
    return fail(
      common,
      {ec::bad_config,
       found->path
         + ": the end of a backup is missing: it was cut, or is a node's "
           "journal, or of an earlier release; --may-be-cut accepts it",
       {}});
  return replace(x, common, "before-restore", [&] { return *found; });
}

int run_repair(const store_options& x, const common_options& common) {
  auto found = read_journal_at(x.directory);
  if (!found)
    return fail(common, found.failure());
  if (!found->content.damage)
    return report(common, found->path, "is undamaged: nothing to repair");
  // Reads again: a node may have written meanwhile.
  return replace(x, common, "damaged",
                 [&] { return read_journal_at(x.directory); });
}

int run_forgive(const store_options& x, const common_options& common) {
  auto where = open_directory(x.directory);
  if (!where)
    return fail(common, where.failure());
  auto journal = fact_journal::open(std::move(*where), facts_file);
  if (!journal)
    return fail(common, journal.failure());
  std::string others;
  for (auto& row : (*journal)->rows(crashes_table)) {
    if (row.key != x.model) {
      others += " " + row.key;
      continue;
    }
    auto done = (*journal)->stage(crashes_table, row.key, "", row.version);
    if (!done)
      return fail(common, done.failure());
    if (auto kept = (*journal)->commit(); !kept)
      return fail(common, kept.failure());
    return report(common, x.directory,
                  "no longer counts the " + row.value + " crashes of "
                    + row.key);
  }
  return fail(common,
              {ec::bad_request,
               x.directory + ": no crash of " + shown(x.model) + " is counted"
                 + (others.empty() ? "" : ", but of" + others),
               {}});
}

} // namespace

void add_store_verb(CLI::App& app, common_options& common, verb_action& run) {
  auto x = std::make_shared<store_options>();
  auto* store = app.add_subcommand(
    "store", "Inspect, back up and repair the durable state of a node");
  store->require_subcommand(1);
  auto add = [&](const char* name, const char* text, auto action) {
    return add_subverb(*store, name, text, common, run,
                       [=, &common] { return action(*x, common); });
  };
  auto directory = [&](CLI::App* verb, const char* text) {
    verb->add_option("directory", x->directory, text)->required();
  };
  directory(add("check", "Verify the checksum of every record", run_check),
            "The node's data directory, or a backup");
  directory(add("list", "Print every row", list_rows),
            "The node's data directory, or a backup");
  directory(
    add("audit",
        "Print the audit log, and check that no line is missing or changed",
        run_audit),
    "The node's data directory");
  directory(add("events", "Print a node's events, across restarts", run_events),
            "The node's data directory");
  auto* backup =
    add("backup", "Back the journal up; the node may run", run_backup);
  directory(backup, "The node's data directory");
  backup->add_option("file", x->file, "The file to write")->required();
  auto* restore =
    add("restore", "Replace the journal by a backup; the node must not run",
        run_restore);
  restore->add_option("file", x->file, "The backup")
    ->required()
    ->check(CLI::ExistingFile);
  directory(restore, "The node's data directory");
  restore->add_flag("--may-be-cut", x->may_be_cut,
                    "Accept a file without a backup's end, such as a journal");
  directory(
    add("repair",
        "Cut a damaged journal where the damage begins; the node must not run",
        run_repair),
    "The node's data directory");
  auto* forgive = add("forgive",
                      "Let a model that crashed the node run in the node's "
                      "threads again; the node must not run",
                      run_forgive);
  directory(forgive, "The node's data directory");
  forgive
    ->add_option("model", x->model,
                 "Name and version as the node's status shows them:"
                 " digits-small.2")
    ->required();
}

} // namespace millrace
