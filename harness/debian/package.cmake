# The Debian packages, by `cpack -G DEB`: `lockstep`, which needs no torch, and `lockstep-catalogue`
# with the scenarios, for machines that have the torch of this build at the same place.
set(CPACK_GENERATOR DEB)
set(LOCKSTEP_DEBIAN_MAINTAINER "Lockstep developers <lockstep@example.org>"
    CACHE STRING "Who answers for the Debian packages")
set(CPACK_PACKAGE_CONTACT ${LOCKSTEP_DEBIAN_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/complete_folders.cmake)
set(CPACK_LOCKSTEP_SOURCE ${PROJECT_SOURCE_DIR})

set(CPACK_COMPONENTS_ALL runtime manual)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME lockstep)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "Watches a distributed training job, unchanged, and says whether its ranks
agree, from which step and tensor not, and if they hang, which rank, in which
collective. It needs no torch; the job keeps its own.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS lockstep-catalogue)

if(LOCKSTEP_TORCH)
  list(APPEND CPACK_COMPONENTS_ALL catalogue)
  set(CPACK_DEBIAN_CATALOGUE_PACKAGE_NAME lockstep-catalogue)
  set(CPACK_COMPONENT_CATALOGUE_DESCRIPTION
      "The scenarios of Lockstep: real bugs of distributed training, each with its buggy path and its fixes.
It needs torch ${LOCKSTEP_TORCH_VERSION} in
${LOCKSTEP_TORCH_ROOT}.")
  set(CPACK_DEBIAN_CATALOGUE_PACKAGE_SUGGESTS "openmpi-bin, mpich")
  set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/depend.cmake)
  set(CPACK_LOCKSTEP_CATALOGUE ${PROJECT_BINARY_DIR}/libexec/lockstep/lockstep-catalogue)
endif()

include(CPack)
cpack_add_component(runtime GROUP program)
cpack_add_component(manual GROUP program)
if(LOCKSTEP_TORCH)
  cpack_add_component(catalogue GROUP catalogue)
endif()
