# The program `scion`: train/ as a library of its own, so that tests and benchmarks can use its parts, and cli/ on top.

pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)

# MPI, for several ranks. MPI_HOME or MPI_C_COMPILER (mpicc.mpich) choose one of several.
set(scion_mpi OFF)
if(NOT SCION_MPI STREQUAL OFF)
    set(MPI_CXX_SKIP_MPICXX ON)
    if(SCION_MPI STREQUAL AUTO)
        find_package(MPI QUIET COMPONENTS C)
    else()
        find_package(MPI REQUIRED COMPONENTS C)
    endif()
    set(scion_mpi ${MPI_C_FOUND})
endif()

file(GLOB train_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/train/*/*.c")
if(scion_mpi)
    list(FILTER train_sources EXCLUDE REGEX "/comm_no_mpi\\.c$")
else()
    list(FILTER train_sources EXCLUDE REGEX "/comm_mpi\\.c$")
endif()

# Completions call the program by its name.
set(completion "${PROJECT_BINARY_DIR}/completion")
foreach(shell bash fish zsh)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/completion/${shell}")
    file(READ "${PROJECT_SOURCE_DIR}/cli/completion/${shell}" text)
    string(REPLACE scion "${SCION_PROGRAM_NAME}" text "${text}")
    file(WRITE "${completion}/${shell}" "${text}")
endforeach()

# Files that the program holds as strings, so that it needs none of them beside it: draw_page_css, completion_bash, ...
file(GLOB embedded CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/train/draw/*.css" "${PROJECT_SOURCE_DIR}/train/draw/*.js")
list(APPEND embedded "${completion}/bash" "${completion}/fish" "${completion}/zsh")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${embedded})
set(strings "")
foreach(file IN LISTS embedded)
    get_filename_component(name "${file}" NAME)
    get_filename_component(folder "${file}" DIRECTORY)
    get_filename_component(folder "${folder}" NAME)
    string(MAKE_C_IDENTIFIER "${folder}_${name}" name)
    file(READ "${file}" bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1, " bytes "${bytes}")
    string(APPEND strings "extern const char ${name}[];\nconst char ${name}[] = {${bytes}0};\n")
endforeach()
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/embedded.c" CONTENT "${strings}")

add_library(scion_train STATIC ${train_sources} "${PROJECT_BINARY_DIR}/embedded.c")
target_include_directories(scion_train PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/train")
target_compile_options(scion_train PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3> -ffp-contract=fast -fno-math-errno
    -fno-trapping-math)
target_compile_definitions(scion_train PRIVATE
    SCION_PRESET_DIR="${CMAKE_INSTALL_FULL_DATADIR}/scion/presets")
target_link_libraries(scion_train PUBLIC scion::scion_static PkgConfig::JANSSON
    PkgConfig::XXHASH PkgConfig::ZSTD PkgConfig::UTF8PROC PkgConfig::PCRE2 PkgConfig::PNG PkgConfig::JPEG ZLIB::ZLIB
    SQLite::SQLite3 m PRIVATE scion_warnings)
if(scion_openmp)
    target_link_libraries(scion_train PUBLIC OpenMP::OpenMP_C)
endif()
if(scion_mpi)
    # Its headers are for one file; what it wants the compiler to be called with (MPICH: how Debian hardens) is not for us.
    set_source_files_properties("${PROJECT_SOURCE_DIR}/train/comm/comm_mpi.c" PROPERTIES INCLUDE_DIRECTORIES
        "${MPI_C_INCLUDE_DIRS}")
    target_link_libraries(scion_train PUBLIC ${MPI_C_LIBRARIES})
endif()

file(GLOB cli_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/*.c")
add_executable(scion_program ${cli_sources})
set_target_properties(scion_program PROPERTIES OUTPUT_NAME "${SCION_PROGRAM_NAME}" RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(scion_program PRIVATE "${PROJECT_SOURCE_DIR}/cli")
# libgomp inside the program, where the compiler has it as an archive: train/util/threads.c says why.
if(scion_openmp AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libgomp.a OUTPUT_VARIABLE libgomp
        OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(IS_ABSOLUTE "${libgomp}")
        target_link_options(scion_program PRIVATE -Wl,--as-needed)
        target_link_libraries(scion_program PRIVATE scion_train "${libgomp}" dl)
    endif()
endif()
target_link_libraries(scion_program PRIVATE scion_train scion_warnings)
install(TARGETS scion_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/presets/" DESTINATION "${CMAKE_INSTALL_DATADIR}/scion/presets")
install(PROGRAMS "${PROJECT_SOURCE_DIR}/tools/get-data" DESTINATION "${CMAKE_INSTALL_DATADIR}/scion")

install(FILES "${completion}/bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
    RENAME "${SCION_PROGRAM_NAME}")
install(FILES "${completion}/zsh" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions"
    RENAME "_${SCION_PROGRAM_NAME}")
install(FILES "${completion}/fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d"
    RENAME "${SCION_PROGRAM_NAME}.fish")
