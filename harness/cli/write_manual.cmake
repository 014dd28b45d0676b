# Writes the pages of the manual and the completions for shells into FOLDER, as PROGRAM gives them:
#
#   cmake -D PROGRAM=... -D FOLDER=... -D HAS_CATALOGUE=ON -P write_manual.cmake
#
# Without a catalogue, the commands that it implements have no page.
set(ENV{LOCKSTEP_CATALOGUE} "")
unset(ENV{COLUMNS})

function(write file)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${FOLDER}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/man/man1 ${FOLDER}/bash-completion/completions
     ${FOLDER}/zsh/site-functions ${FOLDER}/fish/vendor_completions.d)
write(bash-completion/completions/lockstep --completion bash)
write(zsh/site-functions/_lockstep --completion zsh)
write(fish/vendor_completions.d/lockstep.fish --completion fish)
write(man/man1/lockstep.1 --man)
execute_process(COMMAND ${PROGRAM} --complete help "" OUTPUT_VARIABLE commands
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n\t]+\t" commands "${commands}")
foreach(command ${commands})
  string(STRIP "${command}" command)
  if(HAS_CATALOGUE OR NOT command MATCHES "^(list|show|run)$")
    write(man/man1/lockstep-${command}.1 --man ${command})
  endif()
endforeach()
