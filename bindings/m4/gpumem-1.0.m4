# SPDX-License-Identifier: LGPL-2.1-or-later
#
# A macro for configure.ac of programs that use gpumem:
#
#   GPUMEM_CHECK([VERSION], [BACK-ENDS], [IF-FOUND], [IF-NOT-FOUND])
#
# It checks for gpumem of at least that version with all of those back ends: cuda, opencl or both,
# separated by blanks. It sets GPUMEM_CFLAGS and GPUMEM_LIBS, as PKG_CHECK_MODULES does, and
# GPUMEM_BACKENDS, the list of all back ends of the library. Without IF-NOT-FOUND, configure fails.
# If the back ends do not matter, PKG_CHECK_MODULES([GPUMEM], [gpumem-1.0]) is enough.

# serial 1

AC_DEFUN([GPUMEM_CHECK],
[AC_REQUIRE([PKG_PROG_PKG_CONFIG])
gpumem_missing=
PKG_CHECK_MODULES([GPUMEM], [gpumem-1.0 m4_ifnblank([$1], [>= $1])],
  [PKG_CHECK_VAR([GPUMEM_BACKENDS], [gpumem-1.0], [backends])
   AC_MSG_CHECKING([for the back ends of gpumem])
   AC_MSG_RESULT([$GPUMEM_BACKENDS])
   for gpumem_backend in $2; do
     AS_CASE([" $GPUMEM_BACKENDS "], [*" $gpumem_backend "*], [],
             [gpumem_missing="it was built without $gpumem_backend"])
   done],
  [gpumem_missing=${GPUMEM_PKG_ERRORS:-"there is no pkg-config"}])
AS_IF([test -z "$gpumem_missing"], [m4_default([$3], [:])],
      [m4_default([$4], [AC_MSG_ERROR([gpumem cannot be used: $gpumem_missing])])])
])
