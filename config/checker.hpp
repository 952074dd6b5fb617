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

/// Checks after a document was read that involve more than one value. All
/// errors are reported, one line each, up to a limit.
class config_checker {
public:
  explicit config_checker(const yaml_reader& reader) : reader_(reader) {}

protected:
  void refuse(const std::string& key, const std::string& why);
  bool refused() const { return error_.has_value(); }
  result<void> outcome() const;
  void fail(error why);

  /// "LIST[I]".
  static std::string at(const std::string& list, size_t i);

  /// Whether the document has this key.
  bool given(const std::string& key) const { return reader_.has(key); }

  /// Refuses an option that has an effect only with other kinds.
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
  void check_link(const link_config& link);
  void check_models(const std::vector<model_settings>& xs,
                    const std::map<std::string, scope_settings>& scopes,
                    const demand_settings& demand);
  void check_placement(const placement_settings& settings);
  /// Refuses models, and groups of the policy given, on devices that no node
  /// has.
  void check_devices_of(const std::vector<model_settings>& models,
                        const std::map<std::string, scope_settings>& scopes,
                        const std::map<std::string, node_config>& nodes);
  /// Refuses pools in scopes: only simulated clusters start nodes on request.
  void check_no_pools(const std::map<std::string, scope_settings>& scopes);
  /// `key` is the key of the emulation, `lanes` the number of lanes of the
  /// device.
  void check_emulation(const std::string& key, const emulation& settings,
                       uint32_t lanes);
  /// Refuses options that do not apply to the part's arrival process. `key` is
  /// the key of the part with its dot, `length` the length of the run.
  void check_arrivals(const std::string& key, const workload_part& part,
                      microseconds length);
  /// `key` is the key of the device, `lanes` its number of lanes.
  void check_device_sharing(const std::string& key,
                            const device_sharing& settings, uint32_t lanes);

private:
  /// `key` is the key of the law, `lanes` the number of lanes of the device.
  void check_contention(const std::string& key,
                        const contention_settings& settings, uint32_t lanes);
  void check_scaling_of(const std::vector<model_settings>& models,
                        const std::map<std::string, scope_settings>& scopes,
                        const demand_settings& demand);

  const yaml_reader& reader_;
  std::optional<error> error_;
  size_t told_ = 0; ///< number of lines in error_
};

} // namespace millrace
