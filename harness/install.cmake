# The CMake package. Libraries and headers are installed where they are defined (lockstep_library),
# the published tables in reference/. The locations are fixed, because the program finds its tables
# by them.
include(CMakePackageConfigHelpers)
set(package lib/cmake/lockstep)

configure_file(harness/lockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/lockstepConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstepConfig.cmake
              ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
        DESTINATION ${package})
install(EXPORT lockstep_watch NAMESPACE lockstep:: DESTINATION ${package})
install(EXPORT lockstep_core NAMESPACE lockstep:: DESTINATION ${package})
# The component `runtime` is everything that the wheel has, `catalogue` that of the catalogue (ci/wheel).
install(TARGETS lockstep RUNTIME DESTINATION bin COMPONENT runtime)
if(LOCKSTEP_LICENSES)  # of the libraries that are linked statically
  install(DIRECTORY ${LOCKSTEP_LICENSES}/ DESTINATION share/lockstep/licenses COMPONENT runtime)
endif()

# The bill of materials, where PEP 770 has it: in the metadata of the wheel.
if(LOCKSTEP_SBOM)
  foreach(component runtime catalogue)
    install(FILES ${LOCKSTEP_SBOM} DESTINATION ${SKBUILD_METADATA_DIR}/sboms COMPONENT ${component})
  endforeach()
endif()

# The manual and the completions for shells, by the programs that they describe.
set(manual ${PROJECT_BINARY_DIR}/manual)
add_custom_command(OUTPUT ${manual}.stamp
                   COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:lockstep> -D FOLDER=${manual}
                           -D HAS_CATALOGUE=${LOCKSTEP_TORCH}
                           -P ${PROJECT_SOURCE_DIR}/harness/cli/write_manual.cmake
                   COMMAND ${CMAKE_COMMAND} -E touch ${manual}.stamp
                   DEPENDS lockstep $<TARGET_NAME_IF_EXISTS:lockstep_catalogue>
                           ${PROJECT_SOURCE_DIR}/harness/cli/write_manual.cmake
                   COMMENT "Writing the manual" VERBATIM)
add_custom_target(lockstep_manual ALL DEPENDS ${manual}.stamp)
install(DIRECTORY ${manual}/ DESTINATION share COMPONENT manual)
get_property(installed GLOBAL PROPERTY LOCKSTEP_INSTALLED)
add_custom_target(lockstep_installed DEPENDS lockstep_manual lockstep_watch ${installed})

if(LOCKSTEP_TORCH)
  install(EXPORT lockstep_scenarios NAMESPACE lockstep:: DESTINATION ${package})
  install(TARGETS lockstep_catalogue RUNTIME DESTINATION libexec/lockstep COMPONENT catalogue)
  install(FILES harness/torch.cmake harness/find_torch.py harness/run/add_scenarios.cmake
                harness/run/registry.cc.in harness/run/catalogue_main.cc
          DESTINATION ${package})
endif()
