# What the package of the catalogue depends on. CPack's own search fails, as torch is in no package.
file(MAKE_DIRECTORY ${CPACK_PACKAGE_DIRECTORY}/shlibdeps/debian)
file(WRITE ${CPACK_PACKAGE_DIRECTORY}/shlibdeps/debian/control "Source: lockstep\n\nPackage: lockstep-catalogue\nArchitecture: any\n")
execute_process(COMMAND dpkg-shlibdeps --ignore-missing-info -O -e${CPACK_LOCKSTEP_CATALOGUE}
                WORKING_DIRECTORY ${CPACK_PACKAGE_DIRECTORY}/shlibdeps
                OUTPUT_VARIABLE libraries ERROR_VARIABLE complaints COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${CPACK_PACKAGE_DIRECTORY}/shlibdeps)
string(REGEX REPLACE "^shlibs:Depends=(.*)\n$" "\\1" libraries "${libraries}")
set(CPACK_DEBIAN_CATALOGUE_PACKAGE_DEPENDS
    "lockstep (= ${CPACK_PACKAGE_VERSION}), ${libraries}")
