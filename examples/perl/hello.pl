#!/usr/bin/env perl
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# hello: lists the devices, then copies a greeting to the memory of one of them and back.
#
#     perl hello.pl                          the default device
#     GPUMEM_DEVICE=host perl hello.pl       another device

use strict;
use warnings;
use Glib::Object::Introspection;

Glib::Object::Introspection->setup (basename => 'Gpu', version => '1.0', package => 'Gpu');

my $size = 4096;
my $greeting = 'Hello from the memory of a device';

printf "%-10s %s\n", $_->get_id, $_->get_name foreach @{Gpu::Device::list ()};

# A failing function dies with a Glib::Error.
my $context = Gpu::Context->new_default;
my $stream = $context->get_default_stream;
my $buffer = Gpu::Buffer->new ($context, [], $size);
my $duplicate = Gpu::Buffer->new ($context, [], $size);

$stream->fill ($buffer, 0, $size, [ord '.']);
$stream->write ($buffer, 8, Glib::Bytes->new ($greeting));
$stream->copy ($duplicate, 0, $buffer, 0, $size);
my $text = $duplicate->read_bytes ($stream, 0, $size, undef)->get_data;

printf "%s says: %s\n", $context->get_device->get_id, substr $text, 0, 50;
die 'the text is wrong' if $text ne '........' . $greeting . '.' x ($size - 8 - length $greeting);
