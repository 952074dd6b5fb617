// SPDX-License-Identifier: Apache-2.0
#include "shell/commands.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

int show_help(shell& in, const arguments& args) {
  return print_help(in.form, args);
}

} // namespace

const std::vector<shell_command>& shell_commands() {
  using enum argument;
  static const std::vector<shell_command> out{
    {"status",
     "",
     0,
     0,
     {},
     "the cluster in a few lines, and what is wrong",
     show_status,
     "Lines with ! are problems. Lines with - are nodes that left in good "
     "order,"
     " and nodes of the config that have not been seen."},
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
     "load, latency and replicas of each model",
     show_models,
     "REQ/S: arrivals over the last second. P50, P99: time at the gateway of "
     "the"
     " latest ok answers; ERRORS: part of the latest answers that are not ok;"
     " both over the last ten seconds or so with load. READY: replicas, and"
     " after + those that start."},
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
    {"machines",
     "",
     0,
     0,
     {},
     "machines of pools: state, and both bills",
     show_machines,
     "STATE: requested, booting (or lost), ready, draining, released. LEASES:"
     " how often it was requested. RESERVED: from each request to its release,"
     " boot and failures included. USED: the part with a replica on it, as the"
     " controller saw it."},
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
    {"record",
     "FILE [MODEL]",
     1,
     2,
     {file, model},
     "inputs of the latest decisions, into FILE",
     record_decisions,
     "Up to 64 changes of numbers of replicas, with all that the policy saw."
     " Replay them with 'millrace decide --record FILE'."},
    {"doctor",
     "[NODE]",
     0,
     1,
     {node},
     "limits, clocks, versions of hosts",
     examine_cluster,
     "First all that is not good, with what to do about it; then what is good"
     " in one line. --json has every finding."},
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
     change_scope,
     "SCOPE: model/NAME; or application/NAME, pool/NAME or cluster, which"
     " decide for the models that name them. KEY, as often as need be: an"
     " option of the policy, which has its default if not given; or min or max"
     " of a model, which stay if not given. It is kept, and replaces what the "
     "config has; of a scope of"
     " several models POLICY 'configured' goes back to that. Policy fixed has"
     " as many replicas as 'load' was given. Policy given: groups='...' as in"
     " pin, devices='NODE/DEVICE cap at-once 2' for how devices are shared.",
     false},
    {"pin",
     "MODEL GROUPS [for TIME]",
     2,
     24,
     {model},
     "have these groups, not its policy's",
     pin_groups,
     "GROUPS: whole x2, 3 parts x1, or cuts 4/8 x1, each with 'on DEVICE' if"
     " need be, and ';' between several: pin m 'whole x2; 3 parts x1 on v100'."
     " Parameters of a group: batch ROWS, batch-max ROWS, concurrency N,"
     " threads N, share S, weight W (part of the batches, relative to other"
     " replicas with room): pin m 'whole on v100 batch 9; whole x3 batch 5'."
     " TIME: 10min; if not given, until 'unpin'. It is kept over restarts.",
     false},
    {"unpin",
     "MODEL",
     1,
     1,
     {model},
     "have its policy decide again",
     unpin_groups,
     {},
     false},
    {"unload", "MODEL", 1, 1, {model}, "have none", unload_model, {}, false},
    {"set",
     "MODEL KEY=VALUE",
     2,
     16,
     {model},
     "change settings of a model while it is served",
     set_options,
     "KEY, as often as need be: as under models in the config, with dots:"
     " policy.batch=8, parts=3, complete=true, device=gpu0, slo=50ms,"
     " cuts=[4,9]. Other settings stay. The change is durable, and replaces the"
     " config has, until 'forget'. Batch,"
     " concurrency, threads, tenants and policy change without a reload; for"
     " other layers, devices, shares or a larger policy.batch_max replicas are"
     " replaced, new before old.",
     false},
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
    {"slow",
     "NODE/DEVICE FACTOR",
     2,
     2,
     {node},
     "make an emulated device slower",
     slow_emulated_device,
     "To see how policies react: all times of the device are multiplied by"
     " FACTOR from now on; 1: as configured.",
     false},
    {"measure",
     "MODEL [DEVICE [N [X]]]",
     1,
     4,
     {model},
     "measure what a model costs on a device",
     measure_costs,
     "DEVICE: a kind, an id, or NODE/ID; - or none: one without replicas, or"
     " else one whose replicas have no requests. N: of the inputs' extents "
     "that requests choose beside the rows, as the"
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

} // namespace millrace
