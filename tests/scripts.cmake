# Tests of scripts, of documents, of pages in a browser, and of what Python loads: a sanitizer has
# nothing to see in them.

add_test(NAME layers.includes_point_down COMMAND ${PROJECT_SOURCE_DIR}/ci/check-layers)
add_test(NAME layers.each_planted_violation_is_found
         COMMAND ${PROJECT_SOURCE_DIR}/tests/ci/check_layers_test.sh)
set_tests_properties(layers.includes_point_down layers.each_planted_violation_is_found PROPERTIES
                     LABELS "quick;unit" TIMEOUT 180)

add_test(NAME docs.links_and_scenarios_exist COMMAND ${PROJECT_SOURCE_DIR}/ci/check-docs --names)
add_test(NAME docs.each_planted_difference_is_found
         COMMAND ${PROJECT_SOURCE_DIR}/tests/ci/check_docs_test.py)
set_tests_properties(docs.links_and_scenarios_exist docs.each_planted_difference_is_found PROPERTIES
                     LABELS "quick;unit" TIMEOUT 180)

add_test(NAME docs.each_planted_fault_of_a_command_is_found
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/planted_faults_test.py)
set_tests_properties(docs.each_planted_fault_of_a_command_is_found PROPERTIES
                     LABELS "quick;unit" TIMEOUT 180)

# A cold pass over all sources takes too long here: those that changed, as many as 20 seconds suffice for. The
# part `lint` of the soak looks at all.
add_test(NAME lint.sources_are_formatted COMMAND ${PROJECT_SOURCE_DIR}/ci/lint --format)
add_test(NAME lint.what_changed_is_tidy
         COMMAND ${PROJECT_SOURCE_DIR}/ci/tidy --changed --within 20 --jobs 1)
add_test(NAME lint.each_planted_fault_is_found COMMAND ${PROJECT_SOURCE_DIR}/tests/ci/tidy_test.py)
add_test(NAME lint.mutants_are_made_and_told COMMAND ${PROJECT_SOURCE_DIR}/tests/ci/mutants_test.py)
add_test(NAME lint.workflows_meet_their_schemas
         COMMAND ${PROJECT_SOURCE_DIR}/tests/ci/workflows_test.sh)
set_tests_properties(lint.sources_are_formatted lint.what_changed_is_tidy lint.each_planted_fault_is_found
                     lint.mutants_are_made_and_told lint.workflows_meet_their_schemas PROPERTIES
                     LABELS "quick;lint" SKIP_RETURN_CODE 77 TIMEOUT 300)

add_test(NAME ci.test_fails_with_a_build_or_a_test
         COMMAND ${PROJECT_SOURCE_DIR}/tests/ci/test_test.sh)
set_tests_properties(ci.test_fails_with_a_build_or_a_test PROPERTIES LABELS "quick;unit" TIMEOUT 180)

add_test(NAME setup.says_what_to_do_about_torch
         COMMAND ${PROJECT_SOURCE_DIR}/tests/ci/setup_test.sh ${CMAKE_COMMAND})
set_tests_properties(setup.says_what_to_do_about_torch PROPERTIES LABELS "quick;cli" TIMEOUT 180)

# What is installed, if it is built as users run it.
if(LOCKSTEP_SYSTEM_PYTHON AND LOCKSTEP_HARDENING AND CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$")
  set(hardened $<TARGET_FILE:lockstep> $<TARGET_FILE:lockstep_watch>)
  foreach(module lockstep_mpi_mpich lockstep_mpi_openmpi lockstep_nccl)
    if(TARGET ${module})
      list(APPEND hardened $<TARGET_FILE:${module}>)
    endif()
  endforeach()
  add_test(NAME package.programs_and_libraries_are_hardened
           COMMAND ${LOCKSTEP_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/package/hardening_test.py ${hardened})
  set_tests_properties(package.programs_and_libraries_are_hardened PROPERTIES
                       LABELS "quick;package" SKIP_RETURN_CODE 77 TIMEOUT 180)
endif()

# Pages of the HTML report, which a browser opens.
add_executable(write_pages browser/write_pages.cc)
target_link_libraries(write_pages PRIVATE lockstep::diff lockstep::reports_formats fmt::fmt GTest::gtest
                      lockstep_warnings)
target_include_directories(write_pages PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_options(write_pages PRIVATE "$<$<CONFIG:Release>:SHELL:-O0 -U_FORTIFY_SOURCE>")

if(LOCKSTEP_SYSTEM_PYTHON)
  add_test(NAME gpu.rows_of_the_hook
           COMMAND ${LOCKSTEP_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/gpu/rows_test.py
                   $<TARGET_FILE:lockstep_watch>)
  set_tests_properties(gpu.rows_of_the_hook PROPERTIES LABELS "quick;unit" TIMEOUT 180
                       ENVIRONMENT LD_LIBRARY_PATH=$<TARGET_FILE_DIR:standin_driver>)
  add_test(NAME browser.pages
           COMMAND ${LOCKSTEP_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/browser/pages_test.py
                   $<TARGET_FILE:write_pages>)
  set_tests_properties(browser.pages PROPERTIES LABELS "quick;cli" SKIP_RETURN_CODE 77 TIMEOUT 600 COST 40)
  add_test(NAME golden.record_meets_its_schema
           COMMAND ${LOCKSTEP_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/validate_schema.py
                   ${PROJECT_SOURCE_DIR}/reports/record/record.schema.json
                   ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/json.golden)
  add_test(NAME golden.record_of_jobs_meets_its_schema
           COMMAND ${LOCKSTEP_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/validate_schema.py
                   ${PROJECT_SOURCE_DIR}/reports/record/record.schema.json
                   ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/json-jobs.golden)
  add_test(NAME golden.summaries_meet_their_schema
           COMMAND ${LOCKSTEP_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/validate_summary.py
                   ${PROJECT_SOURCE_DIR}/reports/formats/summary.schema.json
                   ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/summary.golden
                   ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/summary-jobs.golden)
  add_test(NAME golden.pages_are_shown_by_github
           COMMAND ${LOCKSTEP_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/validate_markdown.py 60000
                   ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/markdown.golden
                   ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/markdown-jobs.golden
                   ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/markdown-matrix.golden
                   ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/github.golden
                   ${CMAKE_CURRENT_SOURCE_DIR}/reports/formats/github-jobs.golden)
  set_tests_properties(golden.record_meets_its_schema golden.record_of_jobs_meets_its_schema
                       golden.summaries_meet_their_schema golden.pages_are_shown_by_github PROPERTIES
                       LABELS "quick;golden" SKIP_RETURN_CODE 77 TIMEOUT 180)
  add_test(NAME ci.label_times
           COMMAND ${LOCKSTEP_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/ci/label_times_test.py
                   ${CMAKE_CTEST_COMMAND} ${PROJECT_BINARY_DIR})
  set_tests_properties(ci.label_times PROPERTIES LABELS "quick;unit" TIMEOUT 180)
  add_test(NAME ci.github_action
           COMMAND ${LOCKSTEP_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/ci/github_action_test.py)
  set_tests_properties(ci.github_action PROPERTIES
                       LABELS "quick;unit" SKIP_RETURN_CODE 77 TIMEOUT 300)
  add_test(NAME golden.compare_findings
           COMMAND ${LOCKSTEP_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/compare_findings_test.py)
  set_tests_properties(golden.compare_findings PROPERTIES LABELS "quick;golden" TIMEOUT 180)
endif()
