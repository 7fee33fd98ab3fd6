#!/usr/bin/env ruby
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# hello: lists the devices, then copies a greeting to the memory of one of them and back.
#
#     ruby hello.rb                          the default device
#     GPUMEM_DEVICE=host ruby hello.rb       another device
#
# The folder of gpumem.rb must be in RUBYLIB: PREFIX/share/gpumem/ruby, or bindings/ruby.

require 'gpumem'

SIZE = 4096
GREETING = 'Hello from the memory of a device'

Gpu::Device.list.each { |device| puts format('%-10s %s', device.id, device.name) }

# A failing function raises an exception.
context = Gpu::Context.new
stream = context.default_stream
buffer = Gpu::Buffer.new(context, :none, SIZE)
duplicate = Gpu::Buffer.new(context, :none, SIZE)
bytes = GLib::Bytes.new(GREETING)

stream.fill(buffer, 0, SIZE, '.')
stream.write(buffer, 8, bytes)
stream.copy(duplicate, 0, buffer, 0, SIZE)
text = duplicate.read_bytes(stream, 0, SIZE, nil).to_s

puts format('%s says: %s', context.device.id, text[0, 50])
raise 'the text is wrong' unless text == ('........' + GREETING).ljust(SIZE, '.')

# If another constructor takes the same arguments, use the full name of the constructor.
copied = Gpu::Buffer.new_from_bytes(context, :none, bytes)
raise 'the copy is wrong' unless copied.read_bytes(stream, 0, bytes.size, nil).to_s == GREETING
