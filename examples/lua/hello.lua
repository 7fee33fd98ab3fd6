#!/usr/bin/env lua
-- SPDX-License-Identifier: LGPL-2.1-or-later
--
-- hello: lists the devices, then copies a greeting to the memory of one of them and back.
--
--     lua hello.lua                          the default device
--     GPUMEM_DEVICE=host lua hello.lua       another device

local lgi = require 'lgi'
local GLib = lgi.GLib
local Gpu = lgi.require('Gpu', '1.0')

local SIZE = 4096
local GREETING = 'Hello from the memory of a device'

for _, device in ipairs(Gpu.Device.list()) do
  print(string.format('%-10s %s', device.id, device.name))
end

-- Functions of the library return nil or false and a GLib.Error.
local function check(result, failure)
  if not result then
    error(tostring(failure), 0)
  end
  return result
end

local context = check(Gpu.Context.new_default())
local stream = context:get_default_stream()
local buffer = check(Gpu.Buffer.new(context, 'NONE', SIZE))
local duplicate = check(Gpu.Buffer.new(context, 'NONE', SIZE))

check(stream:fill(buffer, 0, SIZE, '.'))
check(stream:write(buffer, 8, GLib.Bytes(GREETING)))
check(stream:copy(duplicate, 0, buffer, 0, SIZE))
local text = check(duplicate:read_bytes(stream, 0, SIZE)).data

print(string.format('%s says: %s', context:get_device().id, text:sub(1, 50)))
assert(text == '........' .. GREETING .. string.rep('.', SIZE - 8 - #GREETING), 'wrong text')
