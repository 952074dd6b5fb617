// SPDX-License-Identifier: Apache-2.0
#include "shell/commands.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>

#include <unistd.h>

#include "millrace/interrupt.hpp"
#include "runtime/nearest.hpp"
#include "runtime/text.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

result<const shell_command*> find_command(const std::string& name) {
  auto& all = shell_commands();
  for (auto& x : all)
    if (x.name == name)
      return &x;
  std::vector<std::string> names;
  for (auto& x : all)
    names.push_back(x.name);
  return error{ec::bad_request,
               "no command " + shown(name) + suggestion(name, names)
                 + "; there are " + joined(names, ", ", std::identity{}),
               {}};
}

json help_json(const shell_command& x) {
  json out{{"command", x.name}, {"arguments", x.usage}, {"help", x.help}};
  if (!x.more.empty())
    out["more"] = x.more;
  return out;
}

} // namespace

int print_help(output_form form, const arguments& args) {
  if (args.size() > 1)
    return complain(form, "usage: help [COMMAND]", exit_wrong_call);
  if (!args.empty()) {
    auto x = find_command(args[0]);
    if (!x)
      return complain(form, x.failure().text, exit_wrong_call);
    if (form == output_form::json)
      return print_json(help_json(**x));
    std::cout << call_of(**x) << "\n  " << (*x)->help << "\n";
    if (auto& more = (*x)->more; !more.empty())
      std::cout << "  " << wrapped(more, 76, 2) << "\n";
    std::cout << std::flush;
    return exit_ok;
  }
  if (form == output_form::json) {
    auto out = json::array();
    for (auto& x : shell_commands())
      out.push_back(help_json(x));
    return print_json(json{{"commands", out}});
  }
  table rows;
  for (auto& x : shell_commands())
    rows.push_back({"  " + x.name + " " + x.usage, x.help});
  std::cout << table_text(rows) << std::flush;
  return exit_ok;
}

std::string call_of(const shell_command& command) {
  return command.name + (command.usage.empty() ? "" : " ") + command.usage;
}

int print_json(const json& value) {
  std::cout << json_text(value) << std::endl;
  return exit_ok;
}

int complain(output_form form, const std::string& why, exit_status status) {
  if (form == output_form::json)
    print_json(json{{"error", why}});
  else
    std::cerr << "actor-shell: " << printable(why) << std::endl;
  return status;
}

int complain(const shell& in, const std::string& why, exit_status status) {
  return complain(in.form, why, status);
}

int report_done(const shell& in, const result<ack>& answer,
                const std::string& text) {
  if (!answer)
    return complain(in, answer.failure().text);
  if (in.form == output_form::json)
    return print_json(json{{"ok", true}});
  std::cout << text << std::endl;
  return exit_ok;
}

void warn_of(const shell& in, const std::map<std::string, std::string>& nodes) {
  if (in.form == output_form::text)
    for (auto& [node, why] : nodes)
      std::cerr << "warning: " << node << ": " << printable(why) << std::endl;
}

bool can_ask() {
  return ::isatty(0) != 0 && ::isatty(1) != 0;
}

bool confirmed(const shell& in, const std::string& what) {
  if (in.sure)
    return true;
  if (!can_ask()) {
    complain(in, what + " Without a terminal to confirm at, add --yes.");
    return false;
  }
  interruptible reading; // ctrl-C means no
  std::cout << what << " Go on? [y/N] " << std::flush;
  std::string said;
  std::getline(std::cin, said);
  std::cin.clear();
  std::clearerr(stdin); // clears the end of input, so that the next question
                        // can be answered
  if (said == "y" || said == "yes" || said == "Y")
    return true;
  std::cout << (reading.happened() ? "\n" : "") << "nothing was changed"
            << std::endl;
  return false;
}

result<const shell_command*> command_of(const std::vector<std::string>& words) {
  auto found = find_command(words.front());
  if (!found)
    return found;
  auto& x = **found;
  auto given = words.size() - 1;
  if (given < x.least || given > x.most)
    return error{
      ec::bad_request,
      "usage: " + call_of(x) + "; found "
        + (given == 0 ? "no argument" : std::to_string(given) + " argument(s)"),
      {}};
  return found;
}

int run_command(shell& in, std::vector<std::string> words) {
  auto sure = in.sure;
  if (std::erase(words, "--yes") + std::erase(words, "-y") > 0)
    sure = true;
  if (words.empty())
    return exit_ok;
  auto x = command_of(words);
  if (!x)
    return complain(in, x.failure().text, exit_wrong_call);
  shell here{in.cluster, in.form, sure};
  return (*x)->run(here, {words.begin() + 1, words.end()});
}

} // namespace millrace
