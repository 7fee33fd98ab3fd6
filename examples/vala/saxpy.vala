// SPDX-License-Identifier: LGPL-2.1-or-later
//
// saxpy: builds a kernel, launches it over a million numbers and maps the result.
//
//     valac --pkg gpumem-1.0 saxpy.vala

const int N = 1 << 20;

const string SOURCE = """
__kernel void
saxpy (float a, __global const float *x, __global float *y)
{
  size_t i = get_global_id (0);

  y[i] = a * x[i] + y[i];
}
""";

Gpu.Buffer new_buffer (Gpu.Context context, float first, float step) throws Error {
    var numbers = new float[N];
    for (int i = 0; i < N; i++)
        numbers[i] = first + step * i;

    unowned var bytes = (uint8[]) numbers;
    bytes.length = N * (int) sizeof (float);
    return new Gpu.Buffer.from_bytes (context, Gpu.MemoryFlags.NONE, new Bytes (bytes));
}

void run () throws Error {
    var context = new Gpu.Context.default ();
    var program = new Gpu.Program.from_source (context, SOURCE);
    var x = new_buffer (context, 0, 1);
    var y = new_buffer (context, 1, 0);

    // The launch returns at once. The mapping below waits for the kernel, because both use y.
    var stream = context.get_default_stream ();
    stream.launch (program.get_kernel ("saxpy"), { N, 1, 1 }, null, 2.5, x, y);

    // The mapping gives the host access to the buffer. Dropping the last reference to the mapping
    // unmaps the buffer.
    var mapping = y.map_all (Gpu.MapFlags.READ);
    unowned var numbers = (float[]) mapping.get_data ();
    numbers.length = N;
    for (int i = 0; i < N; i++) {
        if (numbers[i] != 2.5f * i + 1)
            throw new Gpu.Error.FAILED (@"number $i is $(numbers[i]), not $(2.5f * i + 1)");
    }
    print ("2.5 x + 1 is correct for all %d numbers: %.1f, %.1f, %.1f ... %.1f\n", N,
           numbers[0], numbers[1], numbers[2], numbers[N - 1]);
}

int main () {
    try {
        run ();
        return 0;
    } catch (Error e) {
        printerr ("saxpy: %s\n", e.message);
        return 1;
    }
}
