// SPDX-License-Identifier: LGPL-2.1-or-later
//
// stream-file: counts the bytes of a file that is larger than the device memory that the program
// may use. The chunks of the file alternate between two streams: while the device processes a
// chunk, the program reads the next chunk.
//
//     valac --pkg gpumem-1.0 stream-file.vala
//     ./stream-file disk.img 64
//
// Without arguments, the program creates a file and uses 2 MiB.

const int GROUPS = 32;
const size_t COUNTS_SIZE = GROUPS * 256 * sizeof (uint64);

// Each group of 256 work-items counts bytes in local memory, and adds the result to its own part of
// counts.
const string SOURCE = """
__kernel void
count (__global const uchar *bytes, ulong size, __global ulong *counts)
{
  __local uint mine[256];

  mine[get_local_id (0)] = 0;
  barrier (CLK_LOCAL_MEM_FENCE);
  for (ulong i = get_global_id (0); i < size; i += get_global_size (0))
    atomic_inc (&mine[bytes[i]]);
  barrier (CLK_LOCAL_MEM_FENCE);
  counts[get_global_id (0)] += mine[get_local_id (0)];
}
""";

// A stream, with one half of the device memory, and with page-locked memory into which the file is
// read.
class Lane {
    public Gpu.Stream stream;
    public Gpu.HostMemory chunk;
    public Gpu.Buffer bytes;
    public Gpu.Buffer counts;

    public Lane (Gpu.Context context, size_t size) throws Error {
        stream = new Gpu.Stream (context);
        chunk = new Gpu.HostMemory (context, size - COUNTS_SIZE);
        bytes = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, size - COUNTS_SIZE);
        counts = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, COUNTS_SIZE);
        stream.fill (counts, 0, COUNTS_SIZE, { 0 });
    }

    // Waits for the stream of the lane.
    public void add_counts (uint64[] totals) throws Error {
        var result = counts.read (0, stream);
        unowned var numbers = (uint64[]) result.get_data ();
        for (int i = 0; i < GROUPS * 256; i++)
            totals[i % 256] += numbers[i];
    }
}

// Enqueues the whole file; returns the peak of device memory in use.
uint64 stream_file (Gpu.Context context, InputStream input, Lane[] lanes) throws Error {
    var kernel = new Gpu.Program.from_source (context, SOURCE).get_kernel ("count");
    uint64 held = 0;

    for (int turn = 0;; turn++) {
        var lane = lanes[turn % 2];
        size_t size;

        // Waits only for the copy of the chunk: the kernel and the other stream may still run.
        lane.chunk.synchronize (Gpu.MapFlags.WRITE);
        input.read_all (lane.chunk.get_data (), out size);
        if (size == 0)
            return held;

        lane.stream.copy (lane.bytes, 0, lane.chunk, 0, size);
        lane.stream.launch (kernel, { GROUPS * 256, 1, 1 }, { 256, 1, 1 }, lane.bytes,
                            (uint64) size, lane.counts);
        held = uint64.max (held, context.get_allocated_size ());
    }
}

// Verifies the counts on the CPU.
void check (File file, uint64[] totals) throws Error {
    var input = file.read ();
    var block = new uint8[65536];
    var expected = new uint64[256];
    ssize_t size;

    while ((size = input.read (block)) > 0) {
        for (int i = 0; i < size; i++)
            expected[block[i]]++;
    }
    for (int i = 0; i < 256; i++) {
        if (totals[i] != expected[i])
            throw new Gpu.Error.FAILED (@"byte $i was counted $(totals[i]) times");
    }
}

void run (File file, uint64 budget) throws Error {
    var context = new Gpu.Context.default ();
    Lane[] lanes = { new Lane (context, (size_t) budget / 2),
                     new Lane (context, (size_t) budget / 2) };
    var held = stream_file (context, file.read (), lanes);
    if (held > budget)
        throw new Gpu.Error.FAILED (@"$held bytes were held on the device, more than $budget");

    var totals = new uint64[256];
    uint64 size = 0;
    foreach (var lane in lanes)
        lane.add_counts (totals);
    check (file, totals);
    foreach (var n in totals)
        size += n;
    print (@"counted $size bytes on $(context.get_device ().get_id ()), $(totals[0]) of them " +
           @"zero, with at most $held of $budget bytes held there\n");
}

File make_file () throws Error {
    FileIOStream stream;
    var file = File.new_tmp ("stream-file-XXXXXX", out stream);
    var block = new uint8[65000];

    for (uint i = 0; i < block.length; i++)
        block[i] = (uint8) (i * i >> 8);
    for (int i = 0; i < 160; i++)
        stream.output_stream.write_all (block, null);
    return file;
}

int main (string[] args) {
    File? made = null;
    int status = 0;

    try {
        uint64 mebibytes = 2;
        if (args.length > 2)
            uint64.from_string (args[2], out mebibytes, 10, 1, 1 << 20);
        if (args.length < 2)
            made = make_file ();
        run (made ?? File.new_for_commandline_arg (args[1]), mebibytes << 20);
    } catch (Error e) {
        printerr ("stream-file: %s\n", e.message);
        status = 1;
    }
    if (made != null)
        FileUtils.unlink (made.get_path ());

    return status;
}
