// SPDX-License-Identifier: LGPL-2.1-or-later
//
// pinned: copies numbers to the device and back through page-locked memory.
//
//     valac --pkg gpumem-1.0 pinned.vala

const int N = 1 << 20;

void run () throws Error {
    var context = new Gpu.Context.default ();
    var stream = context.get_default_stream ();
    var allocator = new Gpu.HostAllocator (context, Gpu.HostMemoryFlags.NONE);
    var buffer = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, 4 * N);

    // Releasing the memory does not wait: the allocator reuses the memory only after the copy.
    var source = allocator.alloc (4 * N);
    unowned var numbers = (int32[]) source.get_data ();
    for (int i = 0; i < N; i++)
        numbers[i] = i;
    stream.copy (buffer, 0, source, 0, 4 * N);
    source.release ();

    // The copy is in flight: do not access its memory before it has completed.
    var result = allocator.alloc (4 * N);
    stream.copy (result, 0, buffer, 0, 4 * N);
    result.synchronize (Gpu.MapFlags.READ);
    numbers = (int32[]) result.get_data ();
    for (int i = 0; i < N; i++) {
        if (numbers[i] != i)
            throw new Gpu.Error.FAILED (@"number $i is $(numbers[i])");
    }
    print ("copied %d numbers to the device and back\n", N);
}

int main () {
    try {
        run ();
        return 0;
    } catch (Error e) {
        printerr ("pinned: %s\n", e.message);
        return 1;
    }
}
