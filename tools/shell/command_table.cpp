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
  // clang-format off
  static const std::vector<shell_command> out{
    {.name = "status",
     .help = "a summary of the cluster, and its problems",
     .run = show_status,
     .more = "Lines with ! are problems. Lines with - are nodes that "
             "left in good order, and nodes of the config that have "
             "not been seen."},
    {.name = "top", .usage = "[SECONDS]", .most = 1,
     .help = "the whole cluster, full screen; q quits",
     .run = show_top,
     .watched = false},
    {.name = "nodes",
     .help = "every node: state, roles, start, uptime",
     .run = show_nodes},
    {.name = "devices",
     .help = "every device: load, memory, replicas",
     .run = show_devices},
    {.name = "actors", .usage = "[NODE]", .most = 1, .takes = {node},
     .help = "the actors of nodes, as a tree",
     .run = show_actors},
    {.name = "models",
     .help = "load, latency and replicas of each model",
     .run = show_models,
     .more = "REQ/S: arrivals over the last second. P50, P99: time at "
             "the gateway of the latest ok answers; ERRORS: part of "
             "the latest answers that are not ok; both over the last "
             "ten seconds or so with load. READY: replicas, and after "
             "+ those that start."},
    {.name = "replicas",
     .help = "every replica: where and in which state",
     .run = show_replicas},
    {.name = "queue", .usage = "[MODEL]", .most = 1, .takes = {model},
     .help = "waiting requests of routers, by replica",
     .run = show_queues},
    {.name = "pipelines", .usage = "[MODEL]", .most = 1, .takes = {model},
     .help = "models in stages, and their batches",
     .run = show_pipelines,
     .more = "Of each stage: arrivals of batches (CV: the coefficient "
             "of variation of the times between them, 1 if random), "
             "wait and run times over the last second. Of each "
             "replica: how busy it is, its requests and batches, and "
             "its room for further batches."},
    {.name = "chains",
     .help = "transfers of models between hosts",
     .run = show_chains,
     .more = "Of each receiving host: the part of the bytes that has "
             "arrived, the rate, and which host is the slowest. "
             "'watch 0.5 chains' follows a transfer."},
    {.name = "cache", .usage = "[NODE]", .most = 1, .takes = {node},
     .help = "bundles on nodes, by place",
     .run = show_cache,
     .more = "VERIFIED: bytes of verified weights. PLACE: on a node's "
             "disk, where a person put the bundle; kept on the disk "
             "after it came from another host; arriving in memory; in "
             "memory, until its room is needed; broken on the disk, "
             "and unused until its files change. USERS: replicas that "
             "use the bundle's memory."},
    {.name = "cold-starts", .usage = "[MODEL]", .most = 1, .takes = {model},
     .help = "cold start times of the latest replicas",
     .run = show_starts,
     .more = "Of each replica, by the controller's clock: from the "
             "decision until its node began (.), until its bytes "
             "arrived (=; FROM: source), until they were attached to "
             "the model (+), until the model was warm (*), and until "
             "the controller received that it was ready. ANSWERED: "
             "from the decision to the first answer."},
    {.name = "scaling", .usage = "[MODEL]", .most = 1, .takes = {model},
     .help = "how many replicas are wanted, and why",
     .run = show_scaling,
     .more = "READY: replicas, and after + those that start. REQ/S: "
             "arrivals over the last second. CHANGED: the last change "
             "of WANTED. REASON: of the policy's last decision."},
    {.name = "decisions", .usage = "[MODEL]", .most = 1, .takes = {model},
     .help = "the last changes of numbers of replicas",
     .run = show_decisions,
     .more = "The last 50 of each model, since the controller began; "
             "the latest first."},
    {.name = "placement", .usage = "[MODEL]", .most = 1, .takes = {model},
     .help = "the replicas of each device, by group",
     .run = show_placement,
     .more = "GROUP: SCOPE/MODEL/KEY, as the policy named it. WANTED: "
             "replicas of the group when this one was started."},
    {.name = "demand", .usage = "[MODEL]", .most = 1, .takes = {model},
     .help = "demand of clients, as gateways report it",
     .run = show_demand,
     .more = "WAITING: requests without a replica. OLDEST: the "
             "longest wait of these. WAIT: mean time until execution. "
             "COST: device time of one request. IN TIME: share of "
             "answers within the SLO. CV: coefficient of variation of "
             "the times between arrivals. The last four are over "
             "about ten seconds."},
    {.name = "machines",
     .help = "machines of pools: states and costs",
     .run = show_machines,
     .more = "STATE: requested, booting (or lost), ready, draining, "
             "released. LEASES: how often the machine was requested. "
             "RESERVED: time and cost from each request to the "
             "release, boot and failures included. USED: the part of "
             "RESERVED with a replica on the machine."},
    {.name = "stores",
     .help = "object stores, and the bundles in them",
     .run = show_stores,
     .more = "As the controller last read them; workers read from the "
             "stores themselves. READ: the time since the index was "
             "read."},
    {.name = "profiles", .usage = "[MODEL]", .most = 1, .takes = {model},
     .help = "costs of models: profiled, and recent",
     .run = show_profiles},
    {.name = "plans", .usage = "MODEL [DEVICES [KIND]]", .least = 1, .most = 3,
     .takes = {model},
     .help = "where to cut a model, by its queue length",
     .run = show_plans},
    {.name = "explain", .usage = "[REQUEST]", .most = 1,
     .help = "what happened to a request; or the list",
     .run = explain_request,
     .more = "REQUEST: its number, or the name that its client gave "
             "(--trace). Gateways remember the last requests that "
             "failed, the last with a name, and the slowest."},
    {.name = "events", .usage = "[NODE] [COUNT]", .most = 2, .takes = {node},
     .help = "why nodes, replicas, executors ended",
     .run = show_events,
     .more = "The last COUNT (100) of all nodes or of one, across "
             "restarts. Without a cluster, on the node's host: "
             "millrace store events DATA."},
    {.name = "trace", .usage = "[SECONDS [FILE]]", .most = 2,
     .takes = {other, file},
     .help = "record requests on all nodes, for Perfetto",
     .run = record_trace,
     .more = "Up to 60 SECONDS (1), to FILE (trace.json): a span per "
             "hop, with arrows between nodes. Open it at "
             "https://ui.perfetto.dev.",
     .watched = false},
    {.name = "record", .usage = "FILE [MODEL]", .least = 1, .most = 2,
     .takes = {file, model},
     .help = "inputs of the latest decisions, into FILE",
     .run = record_decisions,
     .more = "Up to 64 changes of the number of replicas, each with "
             "all inputs of the policy. Replay them with 'millrace "
             "decide --record FILE'."},
    {.name = "doctor", .usage = "[NODE]", .most = 1, .takes = {node},
     .help = "limits, clocks, versions of hosts",
     .run = examine_cluster,
     .more = "All findings that are not good, with advice; then one "
             "line for the good ones. --json has every finding."},
    {.name = "watch", .usage = "[SECONDS] COMMAND...", .least = 1, .most = 9,
     .takes = {watched},
     .help = "repeat a command",
     .run = watch_command,
     .more = "Every 0.1 to 3600 SECONDS (2). COMMAND: one that only "
             "reads, and ends.",
     .watched = false},
    {.name = "load", .usage = "MODEL [REPLICAS [VERSION]]", .least = 1,
     .most = 3, .takes = {model},
     .help = "set the number of replicas of a model",
     .run = load_model,
     .more = "Registers the model if needed. REPLICAS: default 1; "
             "fewer than now ends replicas. VERSION: a number, or an "
             "alias, which the model then follows; default: the "
             "version set last, else the alias default, else the "
             "newest.",
     .watched = false},
    {.name = "scope", .usage = "SCOPE POLICY [KEY=VALUE]", .least = 2,
     .most = 16,
     .help = "set the policy that scales models",
     .run = change_scope,
     .more = "SCOPE: model/NAME; or application/NAME, pool/NAME or "
             "cluster, which scale the models that name this scope. "
             "KEY: an option of the policy (default: the option's "
             "default), or min or max of a model (default: "
             "unchanged). The setting is durable, and replaces the "
             "config's; for a scope of several models, POLICY "
             "'configured' restores the config's. Policy fixed keeps "
             "the number of replicas of 'load'. Policy given: "
             "groups='...' as in pin, devices='NODE/DEVICE cap "
             "at-once 2' for how devices are shared.",
     .watched = false},
    {.name = "pin", .usage = "MODEL GROUPS [for TIME]", .least = 2, .most = 24,
     .takes = {model},
     .help = "set groups in place of the policy's",
     .run = pin_groups,
     .more = "GROUPS: whole x2, 3 parts x1, or cuts 4/8 x1, each with "
             "an optional 'on DEVICE', separated by ';': pin m 'whole "
             "x2; 3 parts x1 on v100'. Parameters of a group: batch "
             "ROWS, batch-max ROWS, concurrency N, threads N, share "
             "S, weight W (share of the batches, relative to other "
             "replicas with room): pin m 'whole on v100 batch 9; "
             "whole x3 batch 5'. TIME: 10min; default: until 'unpin'. "
             "The setting is durable.",
     .watched = false},
    {.name = "unpin", .usage = "MODEL", .least = 1, .most = 1, .takes = {model},
     .help = "return a model to its policy",
     .run = unpin_groups,
     .watched = false},
    {.name = "unload", .usage = "MODEL", .least = 1, .most = 1,
     .takes = {model},
     .help = "end all replicas of a model",
     .run = unload_model,
     .watched = false},
    {.name = "set", .usage = "MODEL KEY=VALUE", .least = 2, .most = 16,
     .takes = {model},
     .help = "change settings of a model being served",
     .run = set_options,
     .more = "KEY: as under models in the config, with dots: "
             "policy.batch=8, parts=3, complete=true, device=cuda0, "
             "slo=50ms, cuts=[4,9]. Other settings stay. The change "
             "is durable, and replaces the config's settings until "
             "'forget'. Batch, concurrency, threads, tenants and "
             "policy change without a reload. For other layers, "
             "devices, shares or a larger policy.batch_max, replicas "
             "are replaced: new ones start before old ones end.",
     .watched = false},
    {.name = "trust", .usage = "MODEL", .least = 1, .most = 1, .takes = {model},
     .help = "run a model in threads of nodes: faster",
     .run = trust_model,
     .watched = false},
    {.name = "distrust", .usage = "MODEL", .least = 1, .most = 1,
     .takes = {model},
     .help = "run a model in confined processes only",
     .run = distrust_model,
     .watched = false},
    {.name = "forget", .usage = "MODEL", .least = 1, .most = 1,
     .takes = {model},
     .help = "end all replicas and unregister a model",
     .run = forget_model_of,
     .watched = false},
    {.name = "drain", .usage = "NODE", .least = 1, .most = 1, .takes = {node},
     .help = "finish a node's work, then end the node",
     .run = drain_node,
     .watched = false},
    {.name = "slow", .usage = "NODE/DEVICE FACTOR", .least = 2, .most = 2,
     .takes = {node},
     .help = "make an emulated device slower",
     .run = slow_emulated_device,
     .more = "To test policies: multiplies all times of the device by "
             "FACTOR from now on; 1: as configured.",
     .watched = false},
    {.name = "measure", .usage = "MODEL [DEVICE [N [X]]]", .least = 1,
     .most = 4, .takes = {model},
     .help = "profile a model on a device",
     .run = measure_costs,
     .more = "DEVICE: a kind, an id, or NODE/ID; - or none: a device "
             "without replicas, else one without open requests. N: "
             "extent of the free axes of the inputs other than rows, "
             "such as the length of a text; default: as the import "
             "tried, up to 32. X: a request may take 1 + X times its "
             "time alone, which sets the deadline in the profile; "
             "default: 1. Loads and runs each layer several times. "
             "Replaces the earlier profile of that kind of device.",
     .watched = false},
    {.name = "export-profiles", .usage = "FILE [MODEL]", .least = 1, .most = 2,
     .takes = {file, model},
     .help = "write profiles of models into a YAML file",
     .run = export_profiles,
     .watched = false},
    {.name = "import-profiles", .usage = "FILE", .least = 1, .most = 1,
     .takes = {file},
     .help = "store profiles from a YAML file",
     .run = import_profiles,
     .watched = false},
    {.name = "forget-profiles", .usage = "MODEL", .least = 1, .most = 1,
     .takes = {model},
     .help = "delete the profiles of a model",
     .run = forget_profiles_of,
     .watched = false},
    {.name = "log", .usage = "LEVEL [NODE]", .least = 1, .most = 2,
     .takes = {level, node},
     .help = "set the level of logged events",
     .run = set_log_of,
     .more = "LEVEL: debug, info, warning, error or off. NODE: "
             "default all. The setting lasts until the node ends.",
     .watched = false},
    {.name = "help", .usage = "[COMMAND]", .most = 1, .takes = {command},
     .help = "this list, or help for COMMAND",
     .run = show_help,
     .watched = false},
  };
  // clang-format on
  return out;
}

} // namespace millrace
