# The tests that take minutes or hours: label soak, and soak-PART for the part that they belong to. A
# part takes at most 45 minutes on two cores; `ci/test --soak PART` runs one. Tests that draw what they
# do come in portions named by their first seed, so that an interrupted part goes on from a portion:
# `ci/test --soak PART SEED` leaves out those below it.

# lockstep_soak(PART NAME COMMAND...): FIRST_SEED: of its portion.
function(lockstep_soak part name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "FIRST_SEED" "COMMAND;ENVIRONMENT")
  set(labels soak soak-${part})
  if(DEFINED arg_FIRST_SEED)
    string(APPEND name .seed_${arg_FIRST_SEED})
    set(arg_COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/from_seed.sh ${arg_FIRST_SEED} ${arg_COMMAND})
  endif()
  add_test(NAME soak.${name} COMMAND ${arg_COMMAND})
  set_tests_properties(soak.${name} PROPERTIES LABELS "${labels}" TIMEOUT 7200 SKIP_RETURN_CODE 77
                       ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

set(lockstep $<TARGET_FILE:lockstep>)
set(scripts ${CMAKE_CURRENT_SOURCE_DIR}/scenarios)

# Every scenario at the length that has no place in the quick tests.
foreach(id ${scenario_ids})
  string(REPLACE "-" "_" name ${id})
  lockstep_soak(records records.${name}
                COMMAND scenario_tests --gtest_filter=Soak/*.GivesTheSameRecordAgain/${name})
  lockstep_soak(worlds worlds.${name} COMMAND scenario_tests
    --gtest_filter=Soak/*.IsAsExpectedWithAnotherSeedAndMoreSteps/${name}:Soak/*.IsAsExpectedWithEightRanks/${name})
  lockstep_soak(devices devices.${name} COMMAND scenario_tests
    --gtest_filter=Soak/*.IsAsExpectedOnVirtualDevices/${name})
  lockstep_soak(pairs pairs.${name} COMMAND scenario_tests
    --gtest_filter=Soak/*.IsAsExpectedWithEveryPairOfValuesOfItsAxes/${name})
endforeach()

lockstep_soak(pairs exact_sums COMMAND scenario_tests --gtest_filter=Soak/WhereSumsAreExact.*)
lockstep_soak(records mismatches_over_mpi COMMAND scenario_tests --gtest_filter=Soak/MismatchOverMpi.*)
lockstep_soak(records split_model_for_all_steps
              COMMAND scenario_tests --gtest_filter=Soak/StepsOnDevices.*)

# Every cell ten times, with every value of its axes: four scenarios of a class of faults in a part.
foreach(source ${sources})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(class ${source} DIRECTORY)
  string(REPLACE "_" "-" id ${name})
  list(APPEND of_${class} ${id})
  list(LENGTH of_${class} count)
  math(EXPR number "(${count} + 3) / 4")
  lockstep_soak(again-${class}-${number} every_cell_ten_times.${name}
                COMMAND ${scripts}/ten_times.sh ${lockstep} ${id})
endforeach()

lockstep_soak(healthy scenarios_of_each_kind_of_finding
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/scenarios/kinds_of_findings.sh ${lockstep})
# What the judge says of cells whose names are hidden, and of jobs with the errors of other tools' evaluations.
foreach(seed RANGE 1 3)
  lockstep_soak(random hidden_cells FIRST_SEED ${seed} COMMAND ${LOCKSTEP_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/trial/blind_trial.py ${lockstep} --cells 200 --seed ${seed})
endforeach()
lockstep_soak(healthy jobs_of_other_lists COMMAND ${LOCKSTEP_PYTHON}
              ${CMAKE_CURRENT_SOURCE_DIR}/others/table.py ${lockstep} ${LOCKSTEP_PYTHON})
lockstep_soak(healthy neon COMMAND ${PROJECT_SOURCE_DIR}/ci/neon)
lockstep_soak(lint sources_without_torch_are_tidy COMMAND ${PROJECT_SOURCE_DIR}/ci/lint)
foreach(portion 1 2)
  lockstep_soak(lint-torch-${portion} sources_with_torch_are_tidy.${portion}_of_2
                COMMAND ${PROJECT_SOURCE_DIR}/ci/tidy --torch ${portion}/2)
endforeach()
lockstep_soak(healthy gallery COMMAND ${PROJECT_SOURCE_DIR}/ci/gallery --check ${lockstep} ${LOCKSTEP_PYTHON})
lockstep_soak(healthy commands_of_the_documents
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/commands_test.py --slow ${lockstep} ${LOCKSTEP_PYTHON})
lockstep_soak(healthy symptoms_of_the_readme
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/symptoms_test.py ${lockstep} ${LOCKSTEP_PYTHON})
lockstep_soak(healthy index_of_the_faq COMMAND ${PROJECT_SOURCE_DIR}/ci/check-docs --index ${lockstep})
foreach(seed RANGE 0 9)
  lockstep_soak(healthy healthy FIRST_SEED ${seed}
                COMMAND ${scripts}/healthy.sh ${lockstep} --ranks 2,3,4,8 --seed ${seed})
endforeach()
foreach(steps 1 100)
  lockstep_soak(healthy healthy_for_${steps}_steps
                COMMAND ${scripts}/healthy.sh ${lockstep} --ranks 2 --steps ${steps})
endforeach()

foreach(seed RANGE 0 180 20)
  lockstep_soak(random random_faults FIRST_SEED ${seed}
                COMMAND scenario_tests --gtest_filter=RandomFaults.*
                ENVIRONMENT LOCKSTEP_TEST_SEEDS=20 LOCKSTEP_FIRST_TEST_SEED=${seed})
endforeach()
foreach(seed RANGE 0 200 100)
  lockstep_soak(random random_trainings FIRST_SEED ${seed}
                COMMAND scenario_tests --gtest_filter=RandomTrainings.*
                ENVIRONMENT LOCKSTEP_TEST_SEEDS=100 LOCKSTEP_FIRST_TEST_SEED=${seed})
endforeach()
# Small changes of the sources, each of which a test is to see: as many of the first 100 as there is time for.
lockstep_soak(mutants mutants_are_killed COMMAND ${PROJECT_SOURCE_DIR}/ci/mutants --number 100 --within 2400)

lockstep_soak(random a_hundred_million_structured_changes
              COMMAND record_tests --gtest_filter=StructuredChanges.AreSeen
              ENVIRONMENT LOCKSTEP_STRUCTURED_CHANGES=100000000)

# Changed files: ten million for each reader, in portions of a million. A reader has a folder of the corpus
# (FuzzCorpus) and a part of the soak. A slow one has several, which a first seed tells apart: at 1000 inputs per
# second, five million take two cores 42 minutes.
set(fuzzed_millions
    elsewhere 5 facts 5 redaction 5 secrets 3 staged-answer 4 staged-texts 5 stalled-calls 5 step-index 5)
file(GLOB fuzzed_readers RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus CONFIGURE_DEPENDS
     ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/*)
foreach(reader ${fuzzed_readers})
  list(FIND fuzzed_millions ${reader} at)
  foreach(seed RANGE 1 10)
    set(part fuzz-${reader})
    if(NOT at EQUAL -1)
      math(EXPR at_millions "${at} + 1")
      list(GET fuzzed_millions ${at_millions} millions)
      math(EXPR first "(${seed} - 1) / ${millions} * ${millions} + 1")
      string(APPEND part -${first})
    endif()
    lockstep_soak(${part} fuzz.${reader} FIRST_SEED ${seed}
                  COMMAND ${PROJECT_SOURCE_DIR}/ci/fuzz ${reader} 1000000
                  ENVIRONMENT LOCKSTEP_FUZZ_SEED=${seed})
  endforeach()
endforeach()

# Watched jobs: 500 healthy and 500 faulty by ranks that train many, 50 of each by ranks of their own.
foreach(seed RANGE 1000 1450 50)
  lockstep_soak(watch watched_trainings FIRST_SEED ${seed}
                COMMAND watch_tests --gtest_filter=RandomWatchedTrainings.AreJudgedRight
                ENVIRONMENT LOCKSTEP_TEST_SEEDS=50 LOCKSTEP_FIRST_TEST_SEED=${seed})
endforeach()
# 200 of each with what everyday jobs do besides a plain step.
foreach(seed RANGE 3000 3150 50)
  lockstep_soak(watch watched_everyday_trainings FIRST_SEED ${seed}
                COMMAND watch_tests --gtest_filter=RandomWatchedTrainings.OfEverydayJobsAreJudgedRight
                ENVIRONMENT LOCKSTEP_TEST_SEEDS=50 LOCKSTEP_FIRST_TEST_SEED=${seed})
endforeach()
foreach(seed RANGE 2000 2040 10)
  lockstep_soak(watch watched_trainings_one_by_one FIRST_SEED ${seed}
                COMMAND watch_tests --gtest_filter=RandomWatchedTrainings.AreJudgedRightOneByOne
                ENVIRONMENT LOCKSTEP_TEST_SEEDS=10 LOCKSTEP_FIRST_TEST_SEED=${seed})
endforeach()
# Other ways to hang, and to run a module; and what the quick tests leave out.
string(JOIN ":" filter Soak/* ${more_jobs})
lockstep_soak(watch more_jobs COMMAND watch_tests --gtest_filter=${filter})
lockstep_soak(watch all_reductions COMMAND watch_tests --gtest_filter=RealReductions.*
              ENVIRONMENT LOCKSTEP_TEST_SEEDS=20)

# Small jobs to which something happens, beside twins that nobody watches: 500. `do_no_harm.py --table` sums the counts.
foreach(seed RANGE 0 400 100)
  lockstep_soak(harm do_no_harm FIRST_SEED ${seed}
                COMMAND ${LOCKSTEP_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/harm/do_no_harm.py ${lockstep}
                        ${LOCKSTEP_PYTHON} --cases 100 --seed ${seed} --jobs 2
                        --out ${PROJECT_BINARY_DIR}/harm-${seed}.csv)
endforeach()

foreach(version 2.6.0 newest)
  lockstep_soak(watch watched_with_torch_${version}
                COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/watch/other_torch.sh $<TARGET_FILE:watch_tests>
                        ${version})
endforeach()

# Pairs of healthy trainings in other layouts, which `diff` compares: 400.
lockstep_soak(watch random_layouts COMMAND layouts_tests --gtest_filter=RandomLayouts.*
              ENVIRONMENT LOCKSTEP_TEST_SEEDS=100)
# The same under autocast, and with gradients that are 0 up to rounding: 300 healthy, 800 faulty, then
# 200 healthy, 200 faulty, and 100 whose biases are fused.
foreach(test OfAutocastIsNoDifference OfAutocastHidesNoFault
             OfKeysWhoseBiasChangesNothingLeavesTheRestDecided
             OfABiasThatIsFusedWithThatOfTheKeysIsNoDifference)
  lockstep_soak(watch random_precisions_${test} COMMAND layouts_tests --gtest_filter=Precision.${test}
                ENVIRONMENT LOCKSTEP_TEST_SEEDS=100)
endforeach()
lockstep_soak(watch watched_real_trainers
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/watch/real_trainers.sh ${lockstep} ${PROJECT_SOURCE_DIR})
# 50 mistakes through torch and these trainers: the cause and its line. 300 healthy trainings: none.
lockstep_soak(causes planted_causes
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/watch/planted_causes.sh ${lockstep} ${PROJECT_SOURCE_DIR} mistakes)
foreach(seed RANGE 0 200 100)
  lockstep_soak(causes healthy_setups FIRST_SEED ${seed}
                COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/watch/planted_causes.sh ${lockstep} ${PROJECT_SOURCE_DIR}
                        healthy 100 ${seed})
endforeach()
lockstep_soak(watch validated_upstream_fixes
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/watch/upstream_fixes.sh ${lockstep} ${PROJECT_SOURCE_DIR})

lockstep_soak(package a_loop_of_libtorch_finds_the_library
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/package/libtorch_test.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR}
                      ${LOCKSTEP_PYTHON})
lockstep_soak(package debian_packages
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/package/debian_test.sh ${CMAKE_CPACK_COMMAND} ${PROJECT_BINARY_DIR}
                      ${LOCKSTEP_PYTHON})
lockstep_soak(images the_images_are_built_and_used
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/images_test.sh ${PROJECT_SOURCE_DIR})
lockstep_soak(wheel the_wheel_is_built_and_used
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/package/wheel_soak.sh $<TARGET_FILE:watch_tests>
                      ${LOCKSTEP_PYTHON})

lockstep_soak(ranks the_testbed_ten_times
              COMMAND scenario_tests --gtest_repeat=10 --gtest_filter=-Registry/*:Soak/EveryScenario*)
lockstep_soak(ranks virtual_ranks_two_hundred_times
              COMMAND torch_tests --gtest_repeat=67 --gtest_filter=VirtualRanks.EndAfterABackward*)
lockstep_soak(ranks hangs_twenty_times_under_load COMMAND ${scripts}/hangs_under_load.sh ${lockstep})

# A name, a backend and how its ranks are started.
foreach(way "torchrun|gloo|${python_folder}/torchrun --no-python --nproc-per-node {ranks}"
            "openmpi|gloo|mpirun.openmpi -n {ranks}" "mpich|gloo|mpirun.mpich -n {ranks}"
            "openmpi_over_mpi|mpi|mpirun.openmpi -n {ranks}"
            "mpich_over_mpi|mpi|mpirun.mpich -n {ranks}")
  string(REPLACE "|" ";" way "${way}")
  list(GET way 0 name)
  list(GET way 1 backend)
  list(GET way 2 launcher)
  lockstep_soak(launchers catalogue_by_${name}
                COMMAND ${LOCKSTEP_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/launchers/same_verdicts.py
                        ${lockstep} ${backend} "${launcher}")
endforeach()
lockstep_soak(launchers ranks_of_a_loopback_slurm
              COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/launchers/loopback_slurm.sh ${lockstep}
                      $<TARGET_FILE:lockstep_testbed> ${LOCKSTEP_PYTHON})
