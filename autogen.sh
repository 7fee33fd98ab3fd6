#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Makes configure from a git checkout. Then: mkdir build && cd build && ../configure && make
set -e

cd "$(dirname "$0")"
mkdir -p m4

if command -v gtkdocize >/dev/null 2>&1; then
  gtkdocize --copy
else
  # Write a gtk-doc.make that only defines the two variables to which docs/reference/Makefile.am
  # appends. The build then works, but without the reference manual.
  echo "autogen.sh: gtkdocize not found (gtk-doc-tools): no reference manual" >&2
  rm -f gtk-doc.make m4/gtk-doc.m4
  printf 'EXTRA_DIST =\nCLEANFILES =\n' >gtk-doc.make
fi

autoreconf --force --install
