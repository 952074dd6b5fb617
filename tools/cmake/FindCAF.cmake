# SPDX-License-Identifier: Apache-2.0
# Debian's libcaf-dev ships neither a CMake package nor a pkg-config file.
# Defines CAF::core and CAF_VERSION (0.17.6 from CAF_VERSION 1706).
find_path(CAF_INCLUDE_DIR NAMES caf/actor_system.hpp)
find_library(CAF_core_LIBRARY NAMES caf_core)
if(CAF_INCLUDE_DIR AND EXISTS "${CAF_INCLUDE_DIR}/caf/config.hpp")
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" _caf_line
       REGEX "^#define +CAF_VERSION +[0-9]+")
  string(REGEX REPLACE "^#define +CAF_VERSION +([0-9]+).*" "\\1" _caf
         "${_caf_line}")
  if(_caf)
    math(EXPR _major "${_caf} / 10000")
    math(EXPR _minor "(${_caf} / 100) % 100")
    math(EXPR _patch "${_caf} % 100")
    set(CAF_VERSION "${_major}.${_minor}.${_patch}")
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF
  REQUIRED_VARS CAF_core_LIBRARY CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION)
if(CAF_FOUND AND NOT TARGET CAF::core)
  find_package(Threads REQUIRED)
  add_library(CAF::core SHARED IMPORTED)
  set_target_properties(CAF::core PROPERTIES
    IMPORTED_LOCATION "${CAF_core_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}")
  target_link_libraries(CAF::core INTERFACE Threads::Threads)
endif()
