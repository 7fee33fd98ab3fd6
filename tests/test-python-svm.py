# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shared virtual memory from Python, on every device that GPUMEM_TEST selects."""

import gc
import sys

from python_util import equal, main, need, need_numpy, np, raises
from gi.repository import Gpu

SOURCE = """
struct node { __global struct node *next; int value; int visits; };

__kernel void
walk (__global struct node *first, __global int *sum)
{
  __global struct node *node;
  int total = 0;
  for (node = first; node != 0; node = node->next)
    {
      total += node->value;
      node->visits += 1;
    }
  sum[0] = total;
}
"""


def shared(fixture, size, *args, **kwargs):
    need(fixture, Gpu.Capabilities.SVM_COARSE)
    return Gpu.Svm(fixture.context, size, *args, **kwargs)


def test_usm(fixture):
    attributes = fixture.context.device.attributes
    if "access" not in attributes.get("single-device-shared-mem-capabilities-intel", []):
        with raises(Gpu.Error.NOT_SUPPORTED, "usm-shared"):
            shared(fixture, 16, Gpu.SvmFlags.USM_SHARED)
        return
    svm = shared(fixture, 16, Gpu.SvmFlags.USM_SHARED)
    equal(svm.svm_flags & Gpu.SvmFlags.USM_SHARED, Gpu.SvmFlags.USM_SHARED)
    fixture.context.default_stream.fill(svm, b"ab")
    with svm.map(Gpu.MapFlags.READ) as mapping:
        equal(bytes(mapping), b"ab" * 8)


def test_properties(fixture):
    svm = shared(fixture, 1000, alignment=4096)
    equal(svm.get_size(), 1000)
    equal(svm.alignment, 4096)
    equal(svm.address % 4096, 0)
    equal(svm.address, svm.get_device_address())
    equal(svm.svm_flags, svm.props.svm_flags)
    with raises(Gpu.Error.INVALID_ARGUMENT, "3"):
        shared(fixture, 8, alignment=3)


def test_empty(fixture):
    svm = shared(fixture, 0)
    equal((svm.get_size(), len(svm), svm.released), (0, 0, False))
    assert svm.address not in (0, shared(fixture, 0).address)
    fixture.stream.fill(svm, 1)
    fixture.stream.copy(shared(fixture, 0), svm)
    with raises(Gpu.Error.INVALID_ARGUMENT, "the 0 bytes"):
        fixture.stream.fill(svm, 1, 0, 1)
    with raises(Gpu.Error.INVALID_ARGUMENT, "cannot map 0 bytes"):
        svm.map()
    if svm.svm_flags & Gpu.SvmFlags.FINE_GRAIN:
        equal(bytes(svm.view()), b"")
    if fixture.device.capabilities & Gpu.Capabilities.SOURCE:
        out = fixture.buffer(4)
        fixture.stream.launch(fixture.program().is_null, 1, args=(out, svm))
        equal(out.read(), bytes(4))             # the address of the memory, not null
    svm.release()
    pool = Gpu.MemoryPool.new_for_allocator(Gpu.SvmAllocator(fixture.context))
    equal((pool(0), pool.alloc_svm(0)), (None, None))


def test_map(fixture):
    svm = shared(fixture, 1000)
    with svm.map(Gpu.MapFlags.WRITE_INVALIDATE) as mapping:
        equal(mapping.get_address(), svm.address)
        mapping.view()[:] = bytes(i % 251 for i in range(1000))
    fixture.stream.fill(svm, b"xy", 100, 10)
    with svm.map(Gpu.MapFlags.READ, 98, 14) as mapping:
        equal(mapping.get_address(), svm.address + 98)
        equal(bytes(mapping.view()), b"bc" + b"xy" * 5 + b"no")
    mapping = svm.map()
    if fixture.device.backend != "host":
        with raises(Gpu.Error.BUSY, "mapped"):
            fixture.stream.fill(svm, 0)
    del mapping
    gc.collect()
    fixture.stream.fill(svm, 0)
    fixture.stream.synchronize()


def test_numpy(fixture):
    need_numpy()
    svm = shared(fixture, 4000)
    with svm.map() as mapping:
        numbers = np.asarray(mapping).view(np.float32)
        numbers[:] = np.arange(1000)
        del numbers
    program = fixture.program()
    fixture.stream.launch(program.scale, 1000, args=(svm, 3.0))
    with svm.map(Gpu.MapFlags.READ) as mapping:
        numbers = np.asarray(mapping).view(np.float32)
        assert np.array_equal(numbers, 3 * np.arange(1000, dtype=np.float32))
        del numbers


def test_fine(fixture):
    need(fixture, Gpu.Capabilities.SVM_FINE)
    svm = Gpu.Svm(fixture.context, 100, Gpu.SvmFlags.FINE_GRAIN)
    fixture.stream.fill(svm, b"f")
    data = svm.get_bytes()
    fixture.stream.synchronize()
    del svm
    gc.collect()
    equal(data.get_data(), b"f" * 100)


def test_coarse(fixture):
    svm = shared(fixture, 100)
    if svm.svm_flags & Gpu.SvmFlags.FINE_GRAIN:
        return
    with raises(Gpu.Error.NOT_SUPPORTED, "Svm.map"):
        svm.get_bytes()


def test_arrays(fixture):
    need_numpy()
    need(fixture, Gpu.Capabilities.SVM_COARSE)
    if not fixture.device.capabilities & Gpu.Capabilities.SVM_FINE:
        for make in (Gpu.Svm.empty, Gpu.Svm.zeros):
            with raises(Gpu.Error.NOT_SUPPORTED, "no fine grain", "map a Gpu.Svm.shaped()"):
                make(fixture.context, (2, 3))
        return
    model = np.ones((2, 3, 4), np.int32, "F")
    array = Gpu.Svm.empty(fixture.context, model.shape, model.dtype, "F", alignment=4096)
    svm = Gpu.memory_of(array)
    assert isinstance(svm, Gpu.Svm) and svm.svm_flags & Gpu.SvmFlags.FINE_GRAIN
    equal((array.strides, array.ctypes.data, svm.address % 4096), (model.strides, svm.address, 0))
    equal(svm.to_numpy().strides, model.strides)
    equal(svm.to_numpy("u1").shape, (96,))
    array[:] = model
    del svm
    gc.collect()
    copy = Gpu.Svm.zeros_like(fixture.context, array, svm_flags=Gpu.SvmFlags.FINE_GRAIN)
    assert not copy.any()
    fixture.stream.copy(copy, array)
    fixture.stream.synchronize()
    assert np.array_equal(copy, model)
    equal(Gpu.Svm.zeros(fixture.context, 3).tolist(), [0] * 3)
    equal(Gpu.Svm.empty_like(fixture.context, array, "u1", "C").strides, (12, 4, 1))
    copy[:] = 2
    Gpu.memory_of(copy).release()
    equal(copy.sum(), 48)
    with raises(Gpu.Error.RELEASED):
        fixture.stream.copy(copy, array)


def test_arrays_launched(fixture):
    need_numpy()
    need(fixture, Gpu.Capabilities.SVM_FINE)
    program = fixture.program()
    array = Gpu.Svm.zeros(fixture.context, 1000, np.uint32)
    start = fixture.device.base_alignment // 4
    fixture.stream.launch(program.add, 1000, args=(array, 5))
    fixture.stream.launch(program.add, 10, args=(array[start:start + 10], 2))
    fixture.stream.synchronize()
    equal(np.flatnonzero(array == 7).tolist(), list(range(start, start + 10)))
    equal(array.sum(), 5020)
    nodes = Gpu.Svm.zeros(fixture.context, 2, [("next", "u8"), ("value", "i4"), ("visits", "i4")])
    other = Gpu.Svm.zeros_like(fixture.context, nodes)
    nodes["value"] = other["value"] = 4
    nodes["next"][0] = other.ctypes.data
    total = fixture.buffer(4)
    kernel = Gpu.Program(fixture.context, SOURCE).walk
    fixture.stream.launch(kernel, 1, args=(nodes, total), indirect=[other])
    equal(int.from_bytes(total.read(), "little"), 8)


def test_shaped(fixture):
    need_numpy()
    need(fixture, Gpu.Capabilities.SVM_COARSE)
    model = np.arange(12, dtype=np.float32).reshape(4, 3).T
    for svm in (Gpu.Svm.shaped(fixture.context, (3, 4), np.float32, "F"),
                Gpu.Svm.shaped_like(fixture.context, model, alignment=256)):
        with svm.map(Gpu.MapFlags.WRITE_INVALIDATE) as mapping:
            array = mapping.to_numpy()
            equal((array.shape, array.strides, array.dtype), ((3, 4), (4, 12), np.float32))
            array[:] = model
            del array
        fixture.stream.launch(fixture.program().scale, 12, args=(svm, 2.0))
        with svm.map(Gpu.MapFlags.READ) as mapping:
            array = mapping.to_numpy()
            equal(array.tolist(), (2 * model).tolist())
            assert not array.flags.writeable
            equal(mapping.to_numpy("f4", (3, 4), "F").tolist(), array.tolist())
            equal(mapping.to_numpy("u1").shape, (48,))
            with raises(TypeError):
                Gpu.memory_of(array)
            del array
        with svm.map(Gpu.MapFlags.READ, 4, 8) as mapping:
            equal(mapping.to_numpy().nbytes, 8)
    equal(len(Gpu.Svm.shaped(fixture.context, (0, 2))), 1)


def test_list(fixture):
    need_numpy()
    need(fixture, Gpu.Capabilities.SOURCE)
    node = np.dtype([("next", np.uint64), ("value", np.int32), ("visits", np.int32)])
    memories = [shared(fixture, 50 * node.itemsize) for _ in range(2)]
    for part, memory in enumerate(memories):
        following = np.arange(part, 100, 2) + 1
        with memory.map(Gpu.MapFlags.WRITE_INVALIDATE) as mapping:
            nodes = np.asarray(mapping).view(node)
            nodes["next"] = memories[1 - part].address + following // 2 * node.itemsize
            nodes["next"][following == 100] = 0
            nodes["value"] = following
            nodes["visits"] = 0
            del nodes
    total = fixture.buffer(4)
    kernel = Gpu.Program.new_from_source(fixture.context, SOURCE).walk
    fixture.stream.launch(kernel, 1, args=(memories[0], total), indirect=[memories[1]])
    equal(int.from_bytes(total.read(), "little"), 5050)
    launch = kernel.prepare(1, None, (memories[0], total), indirect=[memories[1]])
    del memories[0]
    gc.collect()
    fixture.stream.launch_prepared(launch)
    with memories[0].map(Gpu.MapFlags.READ) as mapping:
        assert (np.asarray(mapping).view(node)["visits"] == 2).all()


def test_hints(fixture):
    svm = shared(fixture, 8192)
    fixture.stream.fill(svm, 7)
    svm.prefetch()
    svm.prefetch(Gpu.MigrateFlags.HOST, 100, 1000, fixture.stream)
    svm.advise(Gpu.MemoryAdvice.READ_MOSTLY)
    svm.advise(Gpu.MemoryAdvice.ACCESSED_BY, fixture.device)
    svm.attach(Gpu.SvmAttachment.GLOBAL)
    svm.attach(Gpu.SvmAttachment.STREAM, fixture.stream)
    fixture.stream.migrate([svm])
    with svm.map(Gpu.MapFlags.READ) as mapping:
        equal(bytes(mapping.view()), b"\7" * 8192)
    with raises(Gpu.Error.INVALID_ARGUMENT, "8192"):
        svm.prefetch(offset=1, size=8192)


def test_no_array(fixture):
    """numpy.asarray() refuses shared memory, which the host may only access while it is mapped."""
    need_numpy()
    need(fixture, Gpu.Capabilities.SVM_COARSE)
    svm = Gpu.Svm.shaped(fixture.context, (3,), "f4")
    for convert in np.asarray, np.array, lambda memory: np.asarray(memory, "f4"):
        with raises(TypeError, "Gpu.Svm is not an array of NumPy", "to_numpy()", "map()"):
            convert(svm)
    with svm.map() as mapping:
        mapping.to_numpy()[:] = 1, 2, 3
        equal(mapping.to_numpy().tolist(), [1, 2, 3])
    host = Gpu.HostMemory(fixture.context, 3)
    host.write(b"abc")
    equal(np.asarray(host).tobytes(), b"abc")


def test_system(fixture):
    data = bytearray(b"abc" * 100)
    if not fixture.device.capabilities & Gpu.Capabilities.SVM_SYSTEM:
        with raises(Gpu.Error.NOT_SUPPORTED, "Svm.new_for_data"):
            Gpu.Svm.new_for_data(fixture.context, data)
        return
    svm = Gpu.Svm.new_for_data(fixture.context, data)
    fixture.stream.fill(svm, b"x", 1, 1)
    fixture.stream.synchronize()
    equal(data[:4], b"axca")


if __name__ == "__main__":
    sys.exit(main(globals()))
