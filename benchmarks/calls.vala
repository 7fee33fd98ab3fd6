// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Measures the most frequent calls from Vala: the Vala version of calls.c.

const int N = 1024;
const int SIZE = 4 * N;
const int CALLS = 100;
const int BATCHES = 5;

const string SOURCE = """
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}
""";

delegate void Call () throws Error;

class Bench {
    Gpu.Context context;
    Gpu.Stream stream;
    Gpu.MemoryPool pool;
    Gpu.Kernel kernel;
    Gpu.Launch prepared;
    Gpu.Buffer a;
    Gpu.Buffer b;
    uint8[] numbers = new uint8[SIZE];
    uint8[] zero = new uint8[4];
    string separator;
    size_t size;

    public Bench (string name) throws Error {
        context = new Gpu.Context (Gpu.Device.find (name));
        stream = context.get_default_stream ();
        pool = new Gpu.MemoryPool (context);
        kernel = new Gpu.Program.from_source (context, SOURCE).get_kernel ("scale");
        a = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, SIZE);
        b = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, SIZE);
        var arguments = new Gpu.Arguments ();
        arguments.add_memory (a);
        arguments.add_double (2);
        prepared = new Gpu.Launch (kernel, { N, 1, 1 }, null, null, 0, Gpu.LaunchFlags.NONE,
                                   arguments);
        stream.fill (a, 0, SIZE, zero);
    }

    int64 get_thread_time () {
        Posix.timespec now;
        Posix.clock_gettime (Posix.CLOCK_THREAD_CPUTIME_ID, out now);
        return now.tv_sec * (int64) 1000000000 + now.tv_nsec;
    }

    void measure (string name, Call call) throws Error {
        int64 total = 0;
        for (int batch = 0; batch < BATCHES; batch++) {
            var start = get_thread_time ();
            for (int i = 0; i < CALLS; i++)
                call ();
            total += get_thread_time () - start;
            stream.synchronize ();
        }
        stdout.printf ("%s\"%s\": %.1f", separator, name, (double) total / CALLS / BATCHES);
        separator = ", ";
    }

    public void run_round () throws Error {
        separator = "{";
        measure ("take and drop a buffer of a pool", () => { pool.alloc_buffer (SIZE); });
        measure ("copy 4 KiB between buffers", () => { stream.copy (b, 0, a, 0, SIZE); });
        measure ("fill 4 KiB", () => { stream.fill (a, 0, SIZE, zero); });
        measure ("write 4 KiB, later", () => { stream.write (a, 0, new Bytes (numbers)); });
        measure ("write 4 KiB, and wait", () => { a.write (numbers); });
        measure ("read 4 KiB into an array", () => { numbers = a.read ().get_data (); });
        measure ("launch a kernel with arguments",
                 () => { stream.launch (kernel, { N, 1, 1 }, null, a, 2.0); });
        measure ("launch it as it was prepared", () => { stream.launch_prepared (prepared); });
        measure ("wait for a stream that is idle", () => { stream.synchronize (); });
        measure ("size of a buffer", () => { size = a.get_size (); });
        stdout.printf ("}\n");
        stdout.flush ();
    }
}

int main (string[] args) {
    if (args.length != 2) {
        printerr ("usage: %s DEVICE\n", args[0]);
        return 2;
    }
    try {
        var bench = new Bench (args[1]);
        while (stdin.read_line () != null)
            bench.run_round ();
        return 0;
    } catch (Error e) {
        printerr ("calls: %s\n", e.message);
        return 1;
    }
}
