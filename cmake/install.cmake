# What `cmake --install` puts where: libraries, headers, program, pkg-config file, CMake package
# and, where scdoc is present, the manual pages. tests/install builds an outside project on it.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/focal)

install(TARGETS focal focal-static EXPORT focal-targets)
install(DIRECTORY include/focal TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE TYPE DOC)
if(TARGET focal-cli)
  install(TARGETS focal-cli)
endif()

install(EXPORT focal-targets NAMESPACE focal:: DESTINATION ${package_dir})
configure_package_config_file(cmake/focalConfig.cmake.in focalConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 a new minor version may change the API.
write_basic_package_version_file(focalConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/focalConfig.cmake ${PROJECT_BINARY_DIR}/focalConfigVersion.cmake
        DESTINATION ${package_dir})

list(JOIN optional_libraries " " optional_link)
configure_file(cmake/focal.pc.in focal.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/focal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

find_program(SCDOC scdoc)
file(GLOB man_sources CONFIGURE_DEPENDS docs/man/*.scd)
if(SCDOC AND man_sources)
  foreach(source IN LISTS man_sources)
    get_filename_component(page ${source} NAME_WLE) # focal.1.scd -> focal.1
    set(output ${PROJECT_BINARY_DIR}/man/${page})
    add_custom_command(OUTPUT ${output} DEPENDS ${source} VERBATIM
                       COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
                       COMMAND sh -c "\"$1\" <\"$2\" >\"$3\"" sh ${SCDOC} ${source} ${output})
    list(APPEND man_pages ${output})
  endforeach()
  add_custom_target(focal-man ALL DEPENDS ${man_pages})
  add_dependencies(focal-product focal-man)
  install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
elseif(man_sources)
  message(STATUS "scdoc not found: no manual pages (Debian: scdoc)")
endif()
