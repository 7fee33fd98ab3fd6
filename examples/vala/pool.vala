// SPDX-License-Identifier: LGPL-2.1-or-later
//
// pool: two streams process the chunks of a long input. The buffers for each chunk come from a
// pool, which reuses the memory of earlier chunks and rarely calls the driver.
//
//     valac --pkg gpumem-1.0 pool.vala

const int N = 16384;
const size_t SIZE = N * sizeof (uint32);
const int CHUNKS = 64;

const string SOURCE = """
__kernel void
polynomial (__global const uint *x, __global uint *y)
{
  size_t i = get_global_id (0);

  y[i] = 3 * x[i] * x[i] + 2 * x[i] + 1;
}
""";

Bytes make_numbers (uint32 chunk) {
    var bytes = new uint8[SIZE];
    unowned var numbers = (uint32[]) bytes;
    for (uint32 i = 0; i < N; i++)
        numbers[i] = chunk * N + i;
    return new Bytes.take ((owned) bytes);
}

// Returns at once. The buffers may be dropped: the pool orders the next use of their memory after
// the pending work of the stream.
Bytes enqueue (Gpu.MemoryPool pool, Gpu.Stream stream, Gpu.Kernel kernel, uint32 chunk)
              throws Error {
    var x = pool.alloc_buffer (SIZE, stream);
    var y = pool.alloc_buffer (SIZE, stream);
    stream.write (x, 0, make_numbers (chunk));
    stream.launch (kernel, { N, 1, 1 }, null, x, y);
    return stream.read_bytes (y, 0, SIZE);
}

void check (Bytes result, uint32 chunk) throws Error {
    unowned var numbers = (uint32[]) result.get_data ();
    for (uint32 i = 0; i < N; i++) {
        uint32 x = chunk * N + i;
        if (numbers[i] != 3 * x * x + 2 * x + 1)
            throw new Gpu.Error.FAILED (@"number $i of chunk $chunk is $(numbers[i])");
    }
}

void run () throws Error {
    var context = new Gpu.Context.default ();
    var pool = new Gpu.MemoryPool (context);
    Gpu.Stream[] streams = { new Gpu.Stream (context), new Gpu.Stream (context) };
    var kernel = new Gpu.Program.from_source (context, SOURCE).get_kernel ("polynomial");
    Bytes[] results = {};

    for (uint32 chunk = 0; chunk < CHUNKS; chunk++)
        results += enqueue (pool, streams[chunk % 2], kernel, chunk);
    context.synchronize ();
    for (uint32 chunk = 0; chunk < CHUNKS; chunk++)
        check (results[chunk], chunk);

    print (@"$CHUNKS chunks on $(context.get_device ().get_id ()) are correct\n");
    print (@"the pool served $(pool.n_allocs) buffers from $(pool.managed_bytes) bytes, which " +
           @"took $(pool.n_growths) allocations by the driver; $(pool.active_blocks) are in use, " +
           @"and the peak was $(pool.peak_active_bytes) bytes\n");
}

int main () {
    try {
        run ();
    } catch (Error e) {
        printerr ("pool: %s\n", e.message);
        return 1;
    }
    return 0;
}
