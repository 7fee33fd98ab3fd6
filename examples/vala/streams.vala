// SPDX-License-Identifier: LGPL-2.1-or-later
//
// streams: two streams use one buffer in turns, and the program itself does not wait. A main loop
// is notified of the completion.
//
//     valac --pkg gpumem-1.0 streams.vala

const int N = 65536;
const int TURNS = 100;

const string SOURCE = """
__kernel void
increment (__global uint *numbers)
{
  numbers[get_global_id (0)] += 1;
}

__kernel void
triple (__global uint *numbers)
{
  numbers[get_global_id (0)] *= 3;
}
""";

// Odd turns run on one stream, even turns on the other stream. All turns use the same buffer, so on
// the device each kernel waits for the previous kernel. This thread does not wait.
Gpu.Event enqueue (Gpu.Context context, Gpu.Buffer buffer) throws Error {
    var one = new Gpu.Stream (context);
    var other = new Gpu.Stream (context);
    var program = new Gpu.Program.from_source (context, SOURCE);
    var increment = program.get_kernel ("increment");
    var triple = program.get_kernel ("triple");

    one.fill (buffer, 0, buffer.get_size (), { 0 });
    for (int turn = 0; turn < TURNS; turn++) {
        one.launch (increment, { N, 1, 1 }, null, buffer);
        other.launch (triple, { N, 1, 1 }, null, buffer);
    }

    print ("enqueued %d kernels on two streams, which waited %d times for each other\n",
           2 * TURNS, (int) (one.n_hazard_waits + other.n_hazard_waits));
    return other.record ();
}

async void run () throws Error {
    var context = new Gpu.Context.default ();
    var buffer = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, N * sizeof (uint32));

    // The program may drop the streams: pending work references all objects that it uses.
    var end = enqueue (context, buffer);
    yield end.wait_async ();
    print ("main loop: both streams have completed\n");

    uint32 expected = 0;
    for (int turn = 0; turn < TURNS; turn++)
        expected = (expected + 1) * 3;

    var bytes = yield buffer.read_bytes_async (null, 0, buffer.get_size ());
    unowned var numbers = (uint32[]) bytes.get_data ();
    numbers.length = N;
    foreach (var number in numbers) {
        if (number != expected)
            throw new Gpu.Error.FAILED (@"a number is $number, not $expected");
    }
    print ("all %d numbers are %u, as if a single stream had run all kernels\n", N, expected);
}

int main () {
    var loop = new MainLoop ();
    int status = 0;

    run.begin ((source, result) => {
        try {
            run.end (result);
        } catch (Error e) {
            printerr ("streams: %s\n", e.message);
            status = 1;
        }
        loop.quit ();
    });
    loop.run ();

    return status;
}
