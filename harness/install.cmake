# The CMake package. Libraries and headers are installed where they are made (lockstep_library), the
# published tables in reference/. The places are fixed, because the program finds its tables by them.
include(CMakePackageConfigHelpers)
set(package lib/cmake/lockstep)

configure_file(harness/lockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/lockstepConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstepConfig.cmake
              ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
        DESTINATION ${package})
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package})

if(LOCKSTEP_TORCH)
  install(TARGETS lockstep RUNTIME DESTINATION bin)
  install(TARGETS lockstep_catalogue RUNTIME DESTINATION libexec)
  install(FILES harness/torch.cmake harness/find_torch.py harness/cli/add_scenarios.cmake
                harness/cli/registry.cc.in harness/cli/main.cc
          DESTINATION ${package})
endif()
