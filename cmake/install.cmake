# Headers, libraries, pkg-config file, CMake package, man pages, documents and examples. The installed tree can be moved:
# both package files find it from where they lie.

set(headers "${PROJECT_SOURCE_DIR}/include/scion.h" "${PROJECT_SOURCE_DIR}/include/scion_advanced.h")
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/scion")

install(TARGETS scion_shared scion_static EXPORT scionTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(FILES ${headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

# Documents keep their places beside each other, so that their links and the help's docs/NAME.md hold.
foreach(document README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md CITATION.cff LICENSE)
    install(FILES "${PROJECT_SOURCE_DIR}/${document}" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
    FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN "*.csv" PATTERN "*.py" PATTERN "*.[ch]"
    PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/python/examples" DESTINATION "${CMAKE_INSTALL_DOCDIR}/python"
    PATTERN "__pycache__" EXCLUDE)

# ${name} is for pkg-config to replace, hence the brackets.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(SCION_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
    set(SCION_PC_LIBDIR "${CMAKE_INSTALL_FULL_LIBDIR}")
    set(SCION_PC_INCLUDEDIR "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
    file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(SCION_PC_PREFIX [[${pcfiledir}/]])
    string(APPEND SCION_PC_PREFIX "${up}")
    set(SCION_PC_LIBDIR [[${prefix}/]])
    string(APPEND SCION_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
    set(SCION_PC_INCLUDEDIR [[${prefix}/]])
    string(APPEND SCION_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
endif()
list(JOIN scion_private " " SCION_PC_PRIVATE)
configure_file("${PROJECT_SOURCE_DIR}/lib/scion.pc.in" "${PROJECT_BINARY_DIR}/scion.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/scion.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# Until 1.0 a minor version may change the ABI.
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/scionConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/scionConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/scionConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/scionConfig.cmake" "${PROJECT_BINARY_DIR}/scionConfigVersion.cmake"
    DESTINATION "${package_dir}")
install(EXPORT scionTargets NAMESPACE scion:: DESTINATION "${package_dir}")

# The program's page, under the program's name.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/man/scion.1")
file(READ "${PROJECT_SOURCE_DIR}/man/scion.1" page)
string(TOUPPER "${SCION_PROGRAM_NAME}" title)
string(REPLACE ".Dt SCION 1" ".Dt ${title} 1" page "${page}")
string(REPLACE ".Nm scion" ".Nm ${SCION_PROGRAM_NAME}" page "${page}")
string(REPLACE "$ scion " "$ ${SCION_PROGRAM_NAME} " page "${page}")
set(page_file "${PROJECT_BINARY_DIR}/man1/${SCION_PROGRAM_NAME}.1")
file(WRITE "${page_file}" "${page}")
install(FILES "${page_file}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")

# scion(3) is made from the headers; every function has a page that points to it.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers} "${PROJECT_SOURCE_DIR}/tools/man3")
set(man3 "${PROJECT_BINARY_DIR}/man3")
file(REMOVE_RECURSE "${man3}")
file(MAKE_DIRECTORY "${man3}")
execute_process(COMMAND sh "${PROJECT_SOURCE_DIR}/tools/man3" ${headers} OUTPUT_FILE "${man3}/scion.3"
    RESULT_VARIABLE failed)
execute_process(COMMAND sh "${PROJECT_SOURCE_DIR}/tools/man3" --names ${headers} OUTPUT_VARIABLE functions)
if(failed OR NOT functions)
    message(FATAL_ERROR "tools/man3 could not make scion.3")
endif()
string(REGEX MATCHALL "[a-z0-9_]+" functions "${functions}")
foreach(function IN LISTS functions)
    file(WRITE "${man3}/${function}.3" ".so man3/scion.3\n")
endforeach()
install(DIRECTORY "${man3}/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man3")
