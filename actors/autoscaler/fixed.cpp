// SPDX-License-Identifier: Apache-2.0
#include "actors/autoscaler/fixed.hpp"

namespace millrace {

autoscaler_actor::behavior_type fixed_autoscaler(autoscaler_actor::pointer self,
                                                 placement_actor placement) {
  set_common_handlers(self);
  return {
    [self, placement](const registered& x) {
      self->send(placement, proposal{"cluster", x.models});
    },
  };
}

} // namespace millrace
