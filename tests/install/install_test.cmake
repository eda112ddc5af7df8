# cmake -DBUILD=… -DWORK=… -DSOURCE_DIR=… -DCXX=… -P install_test.cmake: installs riffle, moves what was
# installed, builds a program against it and compares what that prints.
function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first --strip)
file(RENAME ${WORK}/first ${WORK}/moved)
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE_DIR}/tests/install -B ${WORK}/build
  -DCMAKE_PREFIX_PATH=${WORK}/moved -DCMAKE_CXX_COMPILER=${CXX} -DSOURCE=${SOURCE_DIR}/examples/embed.cpp)
run(${CMAKE_COMMAND} --build ${WORK}/build)

set(PROGRAM ${WORK}/build/embedder)
set(EXPECTED ${SOURCE_DIR}/examples/embed.txt)
include(${SOURCE_DIR}/cmake/CompareOutput.cmake)

file(WRITE ${WORK}/try.rfls "load ${WORK}/moved/share/riffle/examples/mlp_digits.rfl\ninit\ndata digits\nstep\n")
execute_process(COMMAND ${WORK}/moved/bin/riffle ${WORK}/try.rfls WORKING_DIRECTORY ${WORK} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${WORK})
