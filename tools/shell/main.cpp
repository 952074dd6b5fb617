// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <iostream>

#include <CLI/CLI.hpp>
#include <editline/readline.h>
#include <unistd.h>

#include "millrace/interrupt.hpp"
#include "millrace/manual.hpp"
#include "millrace/verbs.hpp"
#include "shell/commands.hpp"
#include "shell/completion.hpp"
#include "shell/words.hpp"

namespace {

using namespace millrace;

/// The completer of the line that is being typed. A global, because libedit's
/// callbacks take no context.
completer* completing = nullptr;
std::vector<std::string> words_before; ///< before the word being typed

/// Returns the next candidate to libedit, allocated with malloc.
char* next_match(const char* text, int state) {
  static std::vector<std::string> found;
  static size_t at;
  if (state == 0) {
    found = completing->candidates(words_before, text);
    at = 0;
  }
  return at < found.size() ? ::strdup(found[at++].c_str()) : nullptr;
}

char** complete(const char* text, int start, int) {
  auto before =
    words_of(std::string_view{rl_line_buffer}.substr(0, size_t(start)));
  words_before = before ? std::move(*before) : std::vector<std::string>{};
  auto file = before && kind_of_next(words_before) == argument::file;
  rl_attempted_completion_over = file ? 0 : 1; // libedit completes files
  return before && !file ? rl_completion_matches(text, next_match) : nullptr;
}

std::string history_file() {
  auto* home = std::getenv("HOME");
  return home == nullptr ? "" : std::string{home} + "/.actor-shell-history";
}

/// Reads commands until "exit" or the end of the input.
int converse(shell& in) {
  auto at_terminal = ::isatty(0) != 0;
  auto file = history_file();
  completer names{in.cluster};
  completing = &names;
  rl_attempted_completion_function = complete;
  if (at_terminal) {
    std::cout << "actor-shell: 'help' lists the commands, 'exit' leaves\n";
    read_history(file.c_str());
  }
  int status = exit_ok;
  for (;;) {
    std::string line;
    if (at_terminal) {
      interruptible reading;
      auto* typed = ::readline("millrace> ");
      if (typed == nullptr && reading.happened()) {
        std::cout << "\n"; // ctrl-C begins a new line, ctrl-D ends the shell
        continue;
      }
      if (typed == nullptr)
        break;
      line = typed;
      std::free(typed);
      if (!line.empty())
        add_history(line.c_str());
    } else if (!std::getline(std::cin, line)) {
      break;
    }
    auto words = words_of(line);
    if (!words) {
      status = complain(in, words.failure().text, exit_wrong_call);
      continue;
    }
    if (words->empty())
      continue;
    if (words->front() == "exit" || words->front() == "quit")
      break;
    status = run_command(in, std::move(*words));
  }
  if (at_terminal)
    write_history(file.c_str());
  return at_terminal ? exit_ok : status;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"Inspects a running cluster, and changes the models it serves.\n"
               "Without COMMAND, reads commands from stdin; 'help' lists them.",
               "actor-shell"};
  std::string node = "tcp://127.0.0.1:7101";
  std::string key;
  bool as_json = false;
  bool sure = false;
  std::vector<std::string> words;
  app.add_option("--node", node, "A node's address for operators")
    ->capture_default_str()
    ->envname("MILLRACE_OPERATORS");
  app
    .add_option("--key", key,
                "File of your key, for a cluster with keys (millrace keys)")
    ->envname("MILLRACE_OPERATOR_KEY");
  app.add_flag("--json", as_json, "Print JSON");
  app.add_flag("-y,--yes", sure,
               "Do not ask before a command ends or removes something");
  app.add_option("command", words, "A command and its arguments");
  manual_words words_of_manual{
    "inspect and change a running Millrace cluster", {}, {"millrace(1)"}};
  for (auto& x : shell_commands())
    words_of_manual.commands.emplace_back(call_of(x), x.help);
  add_manual(app, std::move(words_of_manual));
  std::string commands = "Commands:\n";
  for (auto& x : shell_commands()) {
    auto call = "  " + call_of(x);
    commands += call + std::string(36 - std::min<size_t>(35, call.size()), ' ')
                + x.help + "\n";
  }
  app.footer(commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return words.empty()
             ? app.exit(e)
             : all_written(print_help(output_form::text, {words.front()}));
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? exit_ok : exit_wrong_call;
  }
  auto form = as_json ? output_form::json : output_form::text;
  if (!words.empty() && words.front() == "help")
    return all_written(print_help(form, {words.begin() + 1, words.end()}));
  auto cluster = operator_client::connect(node, 2s, key);
  if (!cluster)
    return complain(form, cluster.failure().text
                            + (cluster.failure().code == ec::unavailable
                                 ? " (is a node running? --node names another)"
                                 : ""));
  shell in{*cluster, form, sure};
  auto status = words.empty() ? converse(in) : run_command(in, words);
  return all_written(status);
}
