# Sets OUT to TEXT as raw C++ literals in a row, with NAME as their delimiter. A compiler need not accept longer
# ones than 64 KiB.
function(lockstep_literals out name text)
  string(LENGTH "${text}" length)
  set(literals "")
  set(begin 0)
  while(begin LESS length)
    string(SUBSTRING "${text}" ${begin} 60000 part)
    string(APPEND literals "\n    R\"${name}(${part})${name}\"")
    math(EXPR begin "${begin} + 60000")
  endwhile()
  set(${out} "${literals}" PARENT_SCOPE)
endfunction()
