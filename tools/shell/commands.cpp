// SPDX-License-Identifier: Apache-2.0
#include "shell/commands.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include <unistd.h>

#include "millrace/interrupt.hpp"
#include "runtime/text.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

result<const shell_command*> find_command(const std::string& name) {
  auto& all = shell_commands();
  for (auto& x : all)
    if (x.name == name)
      return &x;
  return error{ec::bad_request,
               "no command " + shown(name) + "; there are "
                 + joined(all, ", ", [](auto& x) { return x.name; }),
               {}};
}

json help_json(const shell_command& x) {
  json out{{"command", x.name}, {"arguments", x.usage}, {"help", x.help}};
  if (!x.more.empty())
    out["more"] = x.more;
  return out;
}

int show_help(shell& in, const arguments& args) {
  return print_help(in.form, args);
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

const std::vector<shell_command>& shell_commands() {
  using enum argument;
  static const std::vector<shell_command> out{
    {"status",
     "",
     0,
     0,
     {},
     "the cluster in a few lines, and what is wrong",
     show_status},
    {"top",
     "[SECONDS]",
     0,
     1,
     {},
     "all of it, full screen; q ends it",
     show_top,
     {},
     false},
    {"nodes",
     "",
     0,
     0,
     {},
     "every node: state, roles, start, uptime",
     show_nodes},
    {"devices",
     "",
     0,
     0,
     {},
     "every device: how busy, what it holds",
     show_devices},
    {"actors",
     "[NODE]",
     0,
     1,
     {node},
     "the actors of nodes, as a tree",
     show_actors},
    {"models",
     "",
     0,
     0,
     {},
     "what is registered and how far it is",
     show_models},
    {"replicas",
     "",
     0,
     0,
     {},
     "every replica: where and in which state",
     show_replicas},
    {"queue",
     "[MODEL]",
     0,
     1,
     {model},
     "what waits in routers, who takes it",
     show_queues},
    {"pipelines",
     "[MODEL]",
     0,
     1,
     {model},
     "models in parts, and what moves through them",
     show_pipelines,
     "Of each part: how batches come to it (CV: the coefficient of variation of"
     " the times between them, 1 where they come at random), wait and run, over"
     " the last second; of each replica: how busy it is, what it has and for"
     " how many batches more there is room."},
    {"chains",
     "",
     0,
     0,
     {},
     "models on their way from host to host",
     show_chains,
     "Of each host: how much of what it wants is there, how fast it comes,"
     " which is the slowest. 'watch 0.5 chains' follows it."},
    {"cache",
     "[NODE]",
     0,
     1,
     {node},
     "which bundles are where",
     show_cache,
     "VERIFIED: of the weights. PLACE: on a node's disk, where people put it, "
     "or"
     " kept there after it came from another host; arriving in memory, from"
     " there or from another host; in memory, until its room is needed; broken"
     " on the disk, and used no more until its files change. USERS: replicas"
     " that run with it."},
    {"cold-starts",
     "[MODEL]",
     0,
     1,
     {model},
     "how long the latest replicas took to be there",
     show_starts,
     "Of each, by the controller's clock: from the decision until its node had"
     " begun (.), its bytes were there (=, FROM where), they were attached to"
     " the model (+), it was warmed up (*), and it was known to be ready."
     " ANSWERED: from the decision to its first answer."},
    {"scaling",
     "[MODEL]",
     0,
     1,
     {model},
     "how many replicas are wanted, and why",
     show_scaling,
     "READY: replicas, and after + those that start. REQ/S: arrivals over the"
     " last second. CHANGED: when another number was decided. REASON: of the"
     " last look at the load."},
    {"decisions",
     "[MODEL]",
     0,
     1,
     {model},
     "the last changes of numbers of replicas",
     show_decisions,
     "The last 50 of each model, since the controller began; the latest "
     "first."},
    {"placement",
     "[MODEL]",
     0,
     1,
     {model},
     "the replicas of each device, by group",
     show_placement,
     "GROUP: SCOPE/MODEL/KEY, as the policy named it. WANTED: replicas of the"
     " group when this one was started."},
    {"demand",
     "[MODEL]",
     0,
     1,
     {model},
     "what clients ask for, as gateways report it",
     show_demand,
     "WAITING: requests that no replica has, the OLDEST for so long. WAIT: mean"
     " time until execution; COST: device time of one request; IN TIME: part of"
     " the answers within the SLO; CV: coefficient of variation of the times"
     " between arrivals; these four over the last ten seconds or so."},
    {"stores",
     "",
     0,
     0,
     {},
     "object stores, and what is in them",
     show_stores,
     "As the controller sees them; workers read them themselves. READ: how long"
     " ago its index was read."},
    {"profiles",
     "[MODEL]",
     0,
     1,
     {model},
     "what models cost, as measured and lately",
     show_profiles},
    {"plans",
     "MODEL [DEVICES [KIND]]",
     1,
     3,
     {model},
     "where to cut a model, by what waits for it",
     show_plans},
    {"explain",
     "[REQUEST]",
     0,
     1,
     {},
     "what became of a request; or of which",
     explain_request,
     "REQUEST: its number, or the name its client gave it (--trace). Gateways"
     " remember the last that failed, those with a name, and the slowest."},
    {"events",
     "[NODE] [COUNT]",
     0,
     2,
     {node},
     "why nodes, replicas, executors went",
     show_events,
     "The last COUNT (100) of all nodes or of one, over its lives. On its host:"
     " millrace store events DATA."},
    {"trace",
     "[SECONDS [FILE]]",
     0,
     2,
     {other, file},
     "record requests on all nodes, for Perfetto",
     record_trace,
     "Up to 60 SECONDS (1), to FILE (trace.json): a span per hop, with arrows"
     " between nodes. Open it at https://ui.perfetto.dev.",
     false},
    {"doctor",
     "[NODE]",
     0,
     1,
     {node},
     "limits, clocks, versions of hosts",
     examine_cluster},
    {"watch",
     "[SECONDS] COMMAND...",
     1,
     9,
     {watched},
     "a command again and again",
     watch_command,
     "Every 0.1 to 3600 SECONDS (2); one that looks, and changes nothing.",
     false},
    {"load",
     "MODEL [REPLICAS [VERSION]]",
     1,
     3,
     {model},
     "have replicas of a model",
     load_model,
     "Registers it if need be. REPLICAS: 1 if not given; fewer than there are"
     " ends some. VERSION: a number or an alias, which it keeps to; if not"
     " given, what was said last, else the alias default, else the newest.",
     false},
    {"scope",
     "SCOPE POLICY [KEY=VALUE]",
     2,
     16,
     {},
     "have a policy decide how many replicas",
     set_scope,
     "SCOPE: model/NAME. KEY, as often as need be: min, max, or an option of "
     "the"
     " policy; options that are not named "
     "have"
     " their defaults. It is kept, and replaces what the config has. Policy "
     "fixed"
     " has as many replicas as 'load' was given.",
     false},
    {"unload", "MODEL", 1, 1, {model}, "have none", unload_model, {}, false},
    {"trust",
     "MODEL",
     1,
     1,
     {model},
     "let it run in threads: faster",
     trust_model,
     {},
     false},
    {"distrust",
     "MODEL",
     1,
     1,
     {model},
     "have it run in processes only",
     distrust_model,
     {},
     false},
    {"forget",
     "MODEL",
     1,
     1,
     {model},
     "have none, register it no more",
     forget_model_of,
     {},
     false},
    {"drain",
     "NODE",
     1,
     1,
     {node},
     "take no new work, finish, end it",
     drain_node,
     {},
     false},
    {"measure",
     "MODEL [DEVICE [N [X]]]",
     1,
     4,
     {model},
     "measure what a model costs on an idle device",
     measure_costs,
     "DEVICE: a kind, an id, or NODE/ID; - or none: any that has no replicas."
     " N: of the inputs' extents that requests choose beside the rows, as the"
     " words of a text; default: what the import tried, up to 32. X: by what"
     " part longer than alone a request may take, for the deadline that is"
     " noted with it; default: 1. Takes as long as it takes to load and run"
     " each layer some times, and replaces what was measured on that kind"
     " before.",
     false},
    {"export-profiles",
     "FILE [MODEL]",
     1,
     2,
     {file, model},
     "write what was measured into a YAML file",
     export_profiles,
     {},
     false},
    {"import-profiles",
     "FILE",
     1,
     1,
     {file},
     "keep what was measured elsewhere",
     import_profiles,
     {},
     false},
    {"forget-profiles",
     "MODEL",
     1,
     1,
     {model},
     "forget what was measured of a model",
     forget_profiles_of,
     {},
     false},
    {"log",
     "LEVEL [NODE]",
     1,
     2,
     {level, node},
     "log events from this level on",
     set_log_of,
     "LEVEL: debug, info, warning, error or off; on all nodes or one, until it"
     " ends.",
     false},
    {"help", "[COMMAND]", 0, 1, {command}, "this list", show_help, {}, false},
  };
  return out;
}

std::string call_of(const shell_command& x) {
  return x.name + (x.usage.empty() ? "" : " ") + x.usage;
}

int print_json(const json& x) {
  std::cout << x.dump(-1, ' ', false, json::error_handler_t::replace)
            << std::endl;
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

int report_done(const shell& in, const result<ack>& x,
                const std::string& text) {
  if (!x)
    return complain(in, x.failure().text);
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

bool confirmed(const shell& in, const std::string& what) {
  if (in.sure)
    return true;
  if (::isatty(0) == 0 || ::isatty(1) == 0) {
    complain(in, what + " To do that where nobody can be asked: --yes");
    return false;
  }
  interruptible reading; // ctrl-C is a no
  std::cout << what << " Go on? [y/N] " << std::flush;
  std::string said;
  std::getline(std::cin, said);
  std::cin.clear();
  std::clearerr(stdin); // the end of this answer is not that of the next
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
