# cmake -DPROGRAM=… -DEXPECTED=FILE -P CompareOutput.cmake: fails unless the program succeeds and prints
# the file's content.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status)
file(READ ${EXPECTED} expected)
if(NOT status EQUAL 0 OR NOT output STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}\n${errors}--- printed\n${output}--- expected (${EXPECTED})\n${expected}")
endif()
