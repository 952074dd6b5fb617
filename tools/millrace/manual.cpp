// SPDX-License-Identifier: Apache-2.0
#include "millrace/manual.hpp"

#include <iostream>

#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Escapes text for roff(7): hyphens, and dots that would begin a request.
std::string roff(const std::string& x) {
  std::string out;
  for (auto c : x) {
    if (c == '-' || c == '\\')
      out += '\\';
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += "\\&";
    out += c;
  }
  return out;
}

/// The options and arguments that help shows.
std::vector<const CLI::Option*> shown_options(const CLI::App& x) {
  std::vector<const CLI::Option*> out;
  for (auto* o : x.get_options())
    if (!o->get_group().empty())
      out.push_back(o);
  return out;
}

std::string option_name(const CLI::Option& x) {
  return x.get_positional() ? x.get_name(true) : x.get_name(false, true);
}

bool takes_value(const CLI::Option& x) {
  return x.get_positional() || x.get_expected_max() > 0;
}

/// "millrace model import".
std::string full_name(const CLI::App& x) {
  auto* above = x.get_parent();
  return (above == nullptr ? "" : full_name(*above) + " ") + x.get_name();
}

std::string manual_of(const CLI::Option& x) {
  std::string out = ".TP\n\\fB" + roff(option_name(x)) + "\\fR";
  if (takes_value(x) && !x.get_positional())
    out += " \\fI"
           + roff(x.get_type_name().empty() ? "VALUE" : x.get_type_name())
           + "\\fR";
  out += "\n" + roff(x.get_description());
  if (!x.get_default_str().empty())
    out += " (default: " + roff(x.get_default_str()) + ")";
  if (!x.get_envname().empty())
    out += "\nAlso from \\fB$" + roff(x.get_envname()) + "\\fR.";
  return out + "\n";
}

/// The manual's section of a verb and its subverbs.
std::string manual_of(const CLI::App& x) {
  std::string out;
  auto below = x.get_subcommands([](auto*) { return true; });
  if (below.empty() || shown_options(x).size() > 1) {
    out +=
      ".SS " + roff(full_name(x)) + "\n" + roff(x.get_description()) + ".\n";
    for (auto* o : shown_options(x))
      if (o->get_name() != "--help")
        out += manual_of(*o);
  }
  for (auto* y : below)
    out += manual_of(*y);
  return out;
}

/// "words['./model/import']='--name --store'", for each verb.
void complete_verbs(const CLI::App& x, const std::string& path,
                    std::string& out) {
  auto below = x.get_subcommands([](auto*) { return true; });
  auto words = joined(below, " ", [](auto* y) { return y->get_name(); });
  for (auto* o : shown_options(x))
    for (auto& name : o->get_lnames())
      words += " --" + name;
  out += "  words['" + path + "']='" + words + "'\n";
  for (auto* y : below)
    complete_verbs(*y, path + "/" + y->get_name(), out);
}

} // namespace

std::string man_page(const CLI::App& app, const manual_words& words) {
  auto name = app.get_name();
  std::string title = name;
  for (auto& c : title)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  auto out = ".TH " + roff(title) + " 1 \"\" \"Millrace "
             + std::string{MILLRACE_VERSION} + "\" \"User Commands\"\n"
             + ".SH NAME\n" + roff(name) + " \\- " + roff(words.summary)
             + "\n.SH SYNOPSIS\n\\fB" + roff(name) + "\\fR "
             + (words.commands.empty() ? "\\fIVERB\\fR [\\fIOPTION\\fR...]"
                                       : "[\\fIOPTION\\fR...]"
                                         " [\\fICOMMAND\\fR [\\fIARGUMENT\\fR"
                                         "...]]")
             + "\n.SH DESCRIPTION\n" + roff(app.get_description()) + "\n";
  auto verbs = app.get_subcommands([](auto*) { return true; });
  if (!verbs.empty())
    out += ".SH VERBS\n";
  for (auto* x : verbs)
    out += manual_of(*x);
  if (!words.commands.empty())
    out += ".SH COMMANDS\n";
  for (auto& [command, what] : words.commands)
    out += ".TP\n\\fB" + roff(command) + "\\fR\n" + roff(what) + "\n";
  out += ".SH OPTIONS\n";
  for (auto* o : shown_options(app))
    out += manual_of(*o);
  out += ".SH EXIT STATUS\n"
         ".TP\n0\nsuccess\n.TP\n1\nfailure\n.TP\n2\ninvalid command line\n"
         ".TP\n78\nrefused configuration\n.SH SEE ALSO\n";
  return out + roff(joined(words.see_also, ", ", [](auto& x) { return x; }))
         + "\n";
}

std::string bash_completion(const CLI::App& app, const manual_words& words) {
  auto function = "_" + app.get_name();
  for (auto& c : function)
    c = c == '-' ? '_' : c;
  auto out = "# What bash completes for " + app.get_name() + ".\n" + function
             + "() {\n  local current=${COMP_WORDS[COMP_CWORD]} path=.\n"
               "  local -A words\n";
  complete_verbs(app, ".", out);
  auto commands = joined(words.commands, " ", [](auto& x) {
    return x.first.substr(0, x.first.find(' '));
  });
  if (!commands.empty())
    out += "  words[.]+=' " + commands + "'\n";
  out += "  local word\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    [[ -v words[\"$path/$word\"] ]] && path=$path/$word\n"
         "  done\n"
         "  COMPREPLY=($(compgen -W \"${words[$path]}\" -- \"$current\"))\n"
         "  [[ ${#COMPREPLY[@]} -gt 0 || $current == -* ]] ||\n"
         "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "}\n"
         "complete -o filenames -F ";
  return out + function + " " + app.get_name() + "\n";
}

void add_manual(CLI::App& app, manual_words words) {
  auto print = [&app, words = std::move(words)](const std::string& what) {
    std::cout << (what == "man" ? man_page(app, words)
                                : bash_completion(app, words));
    throw CLI::Success{};
  };
  app.add_flag_callback("--man", [print] { print("man"); })->group("");
  app.add_flag_callback("--completion", [print] { print("bash"); })->group("");
}

} // namespace millrace
