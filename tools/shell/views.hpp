// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shell/commands.hpp"

/// \file
/// The functions of the commands, by topic; command_table.cpp has the table.

namespace millrace {

// views.cpp: the cluster's nodes, devices, models
int show_status(shell& in, const arguments& args);
int show_nodes(shell& in, const arguments& args);
int show_devices(shell& in, const arguments& args);
int show_actors(shell& in, const arguments& args);
int show_replicas(shell& in, const arguments& args);
int show_models(shell& in, const arguments& args);
int show_queues(shell& in, const arguments& args);

// pipelines.cpp: models in stages
int show_pipelines(shell& in, const arguments& args);

// travel.cpp: transfers of models between hosts
int show_chains(shell& in, const arguments& args);
int show_cache(shell& in, const arguments& args);
int show_stores(shell& in, const arguments& args);

// starts.cpp: cold start times
int show_starts(shell& in, const arguments& args);

// scaling.cpp: numbers of replicas, and why
int show_scaling(shell& in, const arguments& args);
int show_decisions(shell& in, const arguments& args);
int show_placement(shell& in, const arguments& args);
int show_demand(shell& in, const arguments& args);

// machines.cpp: machines of pools, and their costs
table machine_rows(const machine_list& machines);
int show_machines(shell& in, const arguments& args);

// profiles.cpp: costs of models
int show_profiles(shell& in, const arguments& args);
int measure_costs(shell& in, const arguments& args);
int show_plans(shell& in, const arguments& args);
int export_profiles(shell& in, const arguments& args);
int import_profiles(shell& in, const arguments& args);
int forget_profiles_of(shell& in, const arguments& args);

// requests.cpp, tracing.cpp, doctor.cpp: diagnosis
int explain_request(shell& in, const arguments& args);
int show_events(shell& in, const arguments& args);
int record_trace(shell& in, const arguments& args);
int examine_cluster(shell& in, const arguments& args);

// changes.cpp: changes of the cluster
int load_model(shell& in, const arguments& args);
int unload_model(shell& in, const arguments& args);
int change_scope(shell& in, const arguments& args);
int pin_groups(shell& in, const arguments& args);
int unpin_groups(shell& in, const arguments& args);
int record_decisions(shell& in, const arguments& args);
int set_options(shell& in, const arguments& args);
int trust_model(shell& in, const arguments& args);
int distrust_model(shell& in, const arguments& args);
int forget_model_of(shell& in, const arguments& args);
int drain_node(shell& in, const arguments& args);
int slow_emulated_device(shell& in, const arguments& args);
int set_log_of(shell& in, const arguments& args);

// screen.cpp: repeated output
int show_top(shell& in, const arguments& args);
int watch_command(shell& in, const arguments& args);

} // namespace millrace
