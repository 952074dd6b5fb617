// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shell/commands.hpp"

/// \file
/// The commands, by what they are for; commands.cpp has the table of them.

namespace millrace {

// views.cpp: what there is
int show_status(shell& in, const arguments& args);
int show_nodes(shell& in, const arguments& args);
int show_devices(shell& in, const arguments& args);
int show_actors(shell& in, const arguments& args);
int show_replicas(shell& in, const arguments& args);
int show_models(shell& in, const arguments& args);
int show_queues(shell& in, const arguments& args);

// pipelines.cpp: models in parts
int show_pipelines(shell& in, const arguments& args);

// travel.cpp: models that go from host to host
int show_chains(shell& in, const arguments& args);
int show_cache(shell& in, const arguments& args);
int show_stores(shell& in, const arguments& args);

// starts.cpp: how long replicas took to be there
int show_starts(shell& in, const arguments& args);

// scaling.cpp: how many replicas there shall be, and why
int show_scaling(shell& in, const arguments& args);
int show_decisions(shell& in, const arguments& args);
int show_placement(shell& in, const arguments& args);
int show_demand(shell& in, const arguments& args);

// machines.cpp: machines of pools, and their bills
table machine_rows(const machine_list& x);
int show_machines(shell& in, const arguments& args);

// profiles.cpp: what models cost
int show_profiles(shell& in, const arguments& args);
int measure_costs(shell& in, const arguments& args);
int show_plans(shell& in, const arguments& args);
int export_profiles(shell& in, const arguments& args);
int import_profiles(shell& in, const arguments& args);
int forget_profiles_of(shell& in, const arguments& args);

// requests.cpp, tracing.cpp, doctor.cpp: what happens, and why
int explain_request(shell& in, const arguments& args);
int show_events(shell& in, const arguments& args);
int record_trace(shell& in, const arguments& args);
int examine_cluster(shell& in, const arguments& args);

// changes.cpp: what changes the cluster
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

// screen.cpp: again and again
int show_top(shell& in, const arguments& args);
int watch_command(shell& in, const arguments& args);

} // namespace millrace
