// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/scenario_workload.hpp"
#include "runtime/names.hpp"
#include "runtime/text.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace {

/// Checks that take more than one value, after a document was read. All that is
/// wrong is told, a line each; but for what is too much to read at once.
class config_checker {
public:
  explicit config_checker(const yaml_reader& reader) : reader_(reader) {}

protected:
  void refuse(const std::string& key, const std::string& why);
  bool refused() const { return error_.has_value(); }
  result<void> outcome() const;
  void fail(error x);

  /// "LIST[I]".
  static std::string at(const std::string& list, size_t i);

  /// Whether the document says anything under that key.
  bool given(const std::string& key) const { return reader_.has(key); }

  /// Refuses an option that would do nothing, since only some kinds have it.
  template <named_enum Kind>
  void only_of(std::initializer_list<Kind> those, Kind kind,
               const std::string& key) {
    if (!given(key) || std::count(those.begin(), those.end(), kind) != 0)
      return;
    auto name = [](Kind x) { return std::string{to_string(x)}; };
    refuse(key, "does nothing with " + name(kind) + "; only with "
                  + joined(those, ", ", name));
  }

  void named(const std::string& key, std::string_view kind,
             const std::string& name);
  void check_link(const link_config& x);
  void check_models(const std::vector<model_settings>& xs,
                    const std::map<std::string, scope_settings>& scopes,
                    const demand_settings& demand);
  void check_placement(const placement_settings& x);
  /// Refuses models, and groups of policy given, on devices that no node has.
  void check_devices_of(const std::vector<model_settings>& models,
                        const std::map<std::string, scope_settings>& scopes,
                        const std::map<std::string, node_config>& nodes);
  /// Refuses the pools of scopes: people start the nodes of a live cluster.
  void check_no_pools(const std::map<std::string, scope_settings>& scopes);
  /// `key`: of the emulation; `lanes`: of the device.
  void check_emulation(const std::string& key, const emulation& x,
                       uint32_t lanes);
  /// Refuses options that the part's arrivals do not have. `key`: of the part,
  /// with its dot; `length`: of the run.
  void check_arrivals(const std::string& key, const workload_part& part,
                      microseconds length);
  /// `key`: of the device; `lanes`: its number of lanes.
  void check_device_sharing(const std::string& key, const device_sharing& x,
                            uint32_t lanes);

private:
  /// `key`: of the law; `lanes`: of the device.
  void check_contention(const std::string& key, const contention_settings& x,
                        uint32_t lanes);
  void check_scaling_of(const std::vector<model_settings>& models,
                        const std::map<std::string, scope_settings>& scopes,
                        const demand_settings& demand);

  const yaml_reader& reader_;
  std::optional<error> error_;
  size_t told_ = 0; ///< lines of it
};

} // namespace millrace
