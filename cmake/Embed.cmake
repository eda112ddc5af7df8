# Writes OUTPUT: the files of FILES (';'-separated) as string_views, for builds that carry them.
# Run as a script:  cmake -DOUTPUT=page.cpp -DHEADER=driver/report/page.h -DNAMESPACE=riffle::driver
#                         -DFILES=a/page.html;a/page.css -P Embed.cmake
# The name of page.html is kPageHtml.
set(text "// Generated from ${FILES}.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
foreach(path ${FILES})
  file(READ ${path} hex HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  get_filename_component(stem ${path} NAME_WE)
  get_filename_component(ending ${path} LAST_EXT)
  string(SUBSTRING ${ending} 1 -1 ending)
  foreach(part stem ending)
    string(SUBSTRING ${${part}} 0 1 first)
    string(SUBSTRING ${${part}} 1 -1 rest)
    string(TOUPPER ${first} first)
    set(${part} "${first}${rest}")
  endforeach()
  string(APPEND text "static const unsigned char k${stem}${ending}Bytes[] = {\n${bytes}};\n"
    "const std::string_view k${stem}${ending}(reinterpret_cast<const char*>(k${stem}${ending}Bytes),"
    " sizeof k${stem}${ending}Bytes);\n")
endforeach()
string(APPEND text "}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${text}")
