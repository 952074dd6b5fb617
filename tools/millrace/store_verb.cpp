// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>

#include "millrace/print.hpp"
#include "runtime/bytes.hpp"
#include "runtime/store/fact_journal.hpp"
#include "runtime/store/kept_log.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

struct store_options {
  std::string directory;
  std::string file;
};

struct found_journal {
  std::string path;
  std::string text;
  fact_content content;
};

/// The journal in a data directory, or in a file of its own. A node that uses
/// it is not disturbed: its journal only grows, or is replaced as a whole.
result<found_journal> read_journal_at(const std::string& path) {
  std::error_code none;
  found_journal out;
  out.path =
    std::filesystem::is_directory(path, none) ? path + "/" + facts_file : path;
  auto text = read_file(out.path, facts_file_max);
  if (!text)
    return text.failure();
  out.text = std::move(*text);
  auto content = read_facts(out.text, out.path);
  if (!content)
    return content.failure();
  out.content = std::move(*content);
  return out;
}

/// What a backup ends with: how many records come before it. A journal that was
/// cut between two records looks like one that never had more.
std::string seal_of(uint64_t records) {
  return pack(fact{"backup", {"records", std::to_string(records), 1}});
}

bool is_sealed(const found_journal& x) {
  return !x.content.damage
         && x.text.ends_with(seal_of(x.content.end.records - 1));
}

error not_whole(const std::string& path) {
  return {ec::bad_config,
          path
            + ": does not end as a backup does: it was cut, or is none"
              " ('millrace store backup' makes one)",
          {}};
}

/// A row's value as a person can read it: most are MessagePack.
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
  if (content.damage && content.damage->torn)
    text += "; a write is under way, or power failed during one";
  auto fine = !content.damage || content.damage->torn;
  if (found->path == x.directory && !is_sealed(*found)) {
    fine = false;
    if (!content.damage)
      text = "the end of a backup is missing";
  }
  if (common.json)
    std::cout << json{{"file", found->path},
                      {"schema", content.schema},
                      {"records", content.end.records},
                      {"rows", rows},
                      {"bytes", found->text.size()},
                      {"whole", fine},
                      {"state", text}}
                   .dump()
              << std::endl;
  else
    std::cout << found->path << ": " << text << " (schema " << content.schema
              << ", " << content.end.records << " records, " << rows
              << " rows, " << format_bytes(found->text.size()) << ")"
              << std::endl;
  return fine ? exit_ok : exit_failed;
}

int run_list(const store_options& x, const common_options& common) {
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
    std::cout << all.dump() << std::endl;
  else
    print_table(table);
  return exit_ok;
}

/// Prints lines that a node has kept.
int print_kept(const std::string& directory, const common_options& common) {
  auto found = read_kept_lines(directory);
  if (!found)
    return fail(common, found.failure());
  if (common.json)
    std::cout
      << json{{"lines", found->lines}, {"whole", found->wrong.empty()}}.dump()
      << std::endl;
  else
    for (auto& line : found->lines)
      std::cout << line << "\n";
  if (found->wrong.empty())
    return exit_ok;
  return common.json ? int{exit_failed}
                     : fail(common, {ec::internal, found->wrong, {}});
}

int run_audit(const store_options& x, const common_options& common) {
  return print_kept(audit_directory(x.directory), common);
}

int run_events(const store_options& x, const common_options& common) {
  return print_kept(event_directory(x.directory), common);
}

int done(const common_options& common, const std::string& file,
         const std::string& text) {
  if (common.json)
    std::cout << json{{"file", file}, {"ok", true}}.dump() << std::endl;
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
                           + ": no backup is made of that",
                         {}});
  auto records = content.end.records;
  auto text = found->text.substr(0, content.end.bytes)
              + next_record(content.end, seal_of(records));
  if (auto ok = write_file(x.file, std::as_bytes(std::span{text})); !ok)
    return fail(common, ok.failure());
  return done(common, x.file,
              "backup of " + std::to_string(records) + " records");
}

/// What the journal was before stays beside it, under a name that is free.
std::string free_name(const std::string& directory, const std::string& why) {
  for (int i = 1;; ++i) {
    auto name = std::string{facts_file} + "." + why + "-" + std::to_string(i);
    if (!std::filesystem::exists(directory + "/" + name))
      return name;
  }
}

/// `by` says what comes in the journal's place, when nobody else can write it.
template <class F>
int replace(const store_options& x, const common_options& common,
            const std::string& why, F by) {
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
  return done(common, x.directory + "/" + facts_file,
              "has " + std::to_string(found->end.records) + " records"
                + (fresh ? "" : "; what was there is in " + kept));
}

int run_restore(const store_options& x, const common_options& common) {
  auto found = read_journal_at(x.file);
  if (!found)
    return fail(common, found.failure());
  if (found->content.damage)
    return fail(common, {ec::bad_config,
                         found->path + ": " + describe_damage(found->content),
                         {}});
  if (!is_sealed(*found))
    return fail(common, not_whole(found->path));
  auto seal = journal_overhead + seal_of(found->content.end.records - 1).size();
  found->text.resize(found->text.size() - seal);
  return replace(x, common, "before-restore", [&] { return *found; });
}

int run_repair(const store_options& x, const common_options& common) {
  auto found = read_journal_at(x.directory);
  if (!found)
    return fail(common, found.failure());
  if (!found->content.damage)
    return done(common, found->path, "is whole, nothing is to be done");
  // Again: a node may have written meanwhile.
  return replace(x, common, "damaged",
                 [&] { return read_journal_at(x.directory); });
}

} // namespace

void add_store_verb(CLI::App& app, common_options& common, verb_action& run) {
  auto x = std::make_shared<store_options>();
  auto* store = app.add_subcommand(
    "store", "Look at, save and mend what a node keeps on disk");
  store->require_subcommand(1);
  auto add = [&](const char* name, const char* text, auto action) {
    return add_subverb(*store, name, text, common, run,
                       [=, &common] { return action(*x, common); });
  };
  auto directory = [&](CLI::App* verb, const char* text) {
    verb->add_option("directory", x->directory, text)->required();
  };
  directory(
    add("check", "See whether every byte is as it was written", run_check),
    "The node's data directory, or a backup");
  directory(add("list", "Print every row", run_list),
            "The node's data directory, or a backup");
  directory(add("audit",
                "Print who did what, and see whether a line is missing or was"
                " changed",
                run_audit),
            "The node's data directory");
  directory(add("events",
                "Print what happened to a node, in all its lives that are kept",
                run_events),
            "The node's data directory");
  auto* backup =
    add("backup", "Save it, while the node runs or not", run_backup);
  directory(backup, "The node's data directory");
  backup->add_option("file", x->file, "The file to write")->required();
  auto* restore = add(
    "restore", "Put a backup in its place; the node must not run", run_restore);
  restore->add_option("file", x->file, "The backup")
    ->required()
    ->check(CLI::ExistingFile);
  directory(restore, "The node's data directory");
  directory(add("repair",
                "Cut a damaged one where the damage begins; the node must not"
                " run",
                run_repair),
            "The node's data directory");
}

} // namespace millrace
