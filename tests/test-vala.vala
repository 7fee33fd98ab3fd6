// SPDX-License-Identifier: LGPL-2.1-or-later
// Tests the Vala binding on every device that GPUMEM_TEST selects.

const string SOURCE = """
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}

__kernel void
reverse (__global uint *numbers, __local uint *shared)
{
  size_t i = get_local_id (0);

  shared[i] = numbers[get_global_id (0)];
  barrier (CLK_LOCAL_MEM_FENCE);
  numbers[get_global_id (0)] = shared[get_local_size (0) - 1 - i];
}
""";

const string IMAGE_SOURCE = """
__kernel void
mirror (__read_only image2d_t in, sampler_t by, __write_only image2d_t out)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);

  write_imagef (out, (int2) (x, y), read_imagef (in, by, (int2) (get_image_width (in) - 1 - x, y)));
}
""";

uint8[] ramp (int n) {
    var data = new uint8[n];
    for (int i = 0; i < n; i++)
        data[i] = (uint8) (i * 7);
    return data;
}

void check_bytes (Bytes got, uint8[] expected) {
    assert (got.compare (new Bytes (expected)) == 0);
}

void with_buffers (Gpu.Context context) throws Error {
    var data = ramp (1000);
    var buffer = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, 1000);
    assert (buffer.get_size () == 1000);
    assert (buffer.get_context () == context);

    buffer.write (data);
    check_bytes (buffer.read (), data);
    check_bytes (buffer.read (900), data[900:1000]);
    buffer.write (data[0:10], 500);
    check_bytes (buffer.read_bytes (null, 499, 12), { data[499], data[0], data[1], data[2],
                 data[3], data[4], data[5], data[6], data[7], data[8], data[9], data[510] });

    buffer.fill_all ({ 1, 2 });
    assert (buffer.read ()[998] == 1 && buffer.read ()[999] == 2);
    buffer.fill (null, 10, 2, { 5 });
    check_bytes (buffer.read_bytes (null, 9, 4), { 2, 5, 5, 1 });

    var copy = new Gpu.Buffer.from_bytes (context, Gpu.MemoryFlags.NONE, new Bytes (data));
    copy.copy_from (new Gpu.Buffer.from_bytes (context, Gpu.MemoryFlags.NONE,
                                               new Bytes ({ 9, 8, 7 })), 4);
    check_bytes (copy.read_bytes (null, 3, 5), { data[3], 9, 8, 7, data[7] });
    assert (!copy.equal (buffer) && copy.equal (copy));
}

void check_array (uint8[] got, uint8[] expected) {
    check_bytes (new Bytes (got), expected);
}

// All functions take bytes as uint8[].
void with_bytes (Gpu.Context context) throws Error {
    var data = ramp (100);
    var buffer = Gpu.Buffer.from_data (context, data);
    check_array (buffer.read_data (), data);
    check_array (buffer.read_data (90), data[90:100]);
    var part = new uint8[12];
    assert (buffer.read_into (part, 7));
    check_array (part, data[7:19]);
    var stream = new Gpu.Stream (context);
    stream.write_data (buffer, { 1, 2, 3 }, 10);
    data[10] = 1;
    data[11] = 2;
    data[12] = 3;
    check_array (buffer.read_data (0, stream), data);
    try {
        buffer.read_into (data, 1);
        assert_not_reached ();
    } catch (Gpu.Error.INVALID_ARGUMENT error) {
        assert ("100" in error.message);
    }

    var memory = new Gpu.HostMemory (context, 64);
    memory.write_data (data[0:64]);
    memory.write_data ({ 9 }, 63);
    check_array (memory.read_data (0, 63), data[0:63]);
    assert (memory.read_data (63, 1)[0] == 9);

    var mapping = buffer.map_all (Gpu.MapFlags.READ | Gpu.MapFlags.WRITE);
    unowned uint8[] mapped = mapping.get_data ();
    check_array (mapped, data);
    foreach (unowned uint8 byte in mapped[0:3])
        assert (byte < 15);
    mapped[99] = 77;
    mapping.unmap ();
    assert (mapping.get_data ().length == 0 && mapping.get_pointer () == null);
    assert (buffer.read_data (99)[0] == 77);

    if (!(Gpu.Capabilities.IMAGES in context.get_device ().get_capabilities ()))
        return;
    Gpu.ImageFormat format = { R, UINT8 };
    var image = new Gpu.Image (context, Gpu.MemoryFlags.NONE, format, IMAGE_2D, { 8, 4, 1 });
    image.write_data (data[0:32]);
    check_array (image.read_data (), data[0:32]);
}

// The length of an array is an int. The host back end does not touch this memory.
void with_much_memory (Gpu.Context context) throws Error {
    size_t size = ((size_t) 1 << 32) + 5;
    if (context.get_device ().get_backend () != "host" ||
        context.get_device ().get_memory_size () < 2 * (uint64) size) {
        Test.skip ("needs the host back end with 8 GiB of memory");
        return;
    }
    var memory = new Gpu.HostMemory (context, size);
    assert (memory.get_data ().length == int.MAX);
    memory.release ();
    var buffer = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, size);
    var mapping = buffer.map_all (Gpu.MapFlags.READ);
    assert (mapping.get_data ().length == int.MAX);
    mapping.unmap ();
    try {
        buffer.read_data ();
        assert_not_reached ();
    } catch (Gpu.Error.INVALID_ARGUMENT e) {
        assert ("4294967301 bytes from offset 0" in e.message && "2147483647" in e.message);
    }
    assert (buffer.read_data (size - 5).length == 5);
}

void with_mappings (Gpu.Context context) throws Error {
    var buffer = new Gpu.Buffer.from_bytes (context, Gpu.MemoryFlags.NONE, new Bytes (ramp (64)));
    var mapping = buffer.map_all (Gpu.MapFlags.READ | Gpu.MapFlags.WRITE);
    unowned var data = (uint8[]) mapping.get_data ();
    data.length = (int) mapping.get_size ();
    assert (data.length == 64);
    for (int i = 0; i < 64; i++)
        assert (data[i] == (uint8) (i * 7));
    data[5] = 200;
    mapping.unmap ();
    assert (!mapping.mapped);
    check_bytes (buffer.read_bytes (null, 4, 3), { 28, 200, 42 });
}

void with_kernels (Gpu.Context context) throws Error {
    var program = new Gpu.Program.from_source (context, SOURCE);
    var stream = context.get_default_stream ();
    var buffer = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, 64 * sizeof (float));
    stream.fill (buffer, 0, 64 * sizeof (float), { 0, 0, 128, 63 });     // 1.0f, lowest byte first
    stream.launch (program.get_kernel ("scale"), { 64, 1, 1 }, null, buffer, 2.5);
    stream.launch (program.get_kernel ("scale"), { 32, 1, 1 }, { 16, 1, 1 }, buffer, 2.0);

    var arguments = new Gpu.Arguments ();
    arguments.add_memory (buffer);
    arguments.add_int (3);
    stream.launch_arguments (program.get_kernel ("scale"), { 64, 1, 1 }, null, arguments);

    var numbers = buffer.read_floats ();
    assert (numbers.length == 64);
    for (int i = 0; i < 64; i++)
        assert (numbers[i] == (i < 32 ? 15 : 7.5f));
    buffer.write_floats ({ 1, -2.5f }, 8);
    assert (buffer.read_floats (4)[0] == 15 && buffer.read_floats (4)[2] == -2.5f);
    buffer.write_doubles ({ 0.1, -1e300 });
    assert (buffer.read_doubles ().length == 32 && buffer.read_doubles ()[1] == -1e300);
    buffer.write_ints ({ int32.MIN, -1 }, 4);
    assert (buffer.read_ints (4)[0] == int32.MIN && buffer.read_uints (8)[0] == uint32.MAX);

    try {
        buffer.read_ints (1000);
        assert_not_reached ();
    } catch (Error e) {
        assert ("1000" in e.message);
    }
    try {
        buffer.read_doubles (4);
        assert_not_reached ();
    } catch (Gpu.Error.INVALID_ARGUMENT e) {
        assert ("252 bytes from offset 4" in e.message && "8 bytes" in e.message);
    }
    try {
        buffer.count (4, 0);
        assert_not_reached ();
    } catch (Gpu.Error.INVALID_ARGUMENT e) {
        assert ("252 bytes from offset 4" in e.message && "of 0 bytes" in e.message);
    }

    var words = new uint32[64];
    for (int i = 0; i < 64; i++)
        words[i] = i;
    buffer.write_uints (words);
    arguments.clear ();
    // A row, as a slice of the buffer, is an argument of a kernel. Rows are long enough for the
    // alignment of the device
    var row = size_t.max (64, context.get_device ().get_base_alignment () / sizeof (float));
    var ones = new float[2 * row];
    for (var i = 0; i < 2 * row; i++)
        ones[i] = 1;
    unowned uint8[] data = (uint8[]) ones;
    data.length = (int) (2 * row * sizeof (float));
    var array = new Gpu.Array.from_bytes (context, null, null, Gpu.DType.FLOAT32,
                                          { 2, (ssize_t) row }, Gpu.ArrayOrder.C,
                                          new Bytes (data));
    arguments.add_array (array.index (0, 1));
    arguments.add_int (3);
    stream.launch_arguments (program.get_kernel ("scale"), { row, 1, 1 }, null, arguments);
    var scaled_bytes = array.read_bytes (null, Gpu.ArrayOrder.C);
    float* scaled = scaled_bytes.get_data ();
    assert (scaled[row - 1] == 1 && scaled[row] == 3 && scaled[2 * row - 1] == 3);

    arguments.clear ();
    arguments.add_memory (buffer);
    arguments.add_local (64);
    stream.launch_arguments (program.get_kernel ("reverse"), { 64, 1, 1 }, { 16, 1, 1 }, arguments);
    var reversed = buffer.read_uints ();
    for (int i = 0; i < 64; i++)
        assert (reversed[i] == i / 16 * 16 + 15 - i % 16);
}

// D28, D49 to D51
void with_launches (Gpu.Context context) throws Error {
    var program = new Gpu.Program.from_source (context, SOURCE);
    var buffer = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, 64 * sizeof (float));
    buffer.fill_all ({ 0, 0, 128, 63 });
    var arguments = new Gpu.Arguments ();
    arguments.add_memory (buffer);
    arguments.add_int (2);
    var launch = new Gpu.Launch (program.get_kernel ("scale"), { 64, 1, 1 }, null, null, 0,
                                 Gpu.LaunchFlags.NONE, arguments);
    var stream = new Gpu.Stream (context, Gpu.StreamFlags.PROFILING);
    stream.launch_prepared (launch);
    stream.launch_prepared (launch);
    var event = stream.launch_timed (launch);
    event.wait ();
    uint64 nanoseconds;
    assert (event.get_duration (out nanoseconds));
    var bytes = buffer.read ();
    unowned var numbers = (float[]) bytes.get_data ();
    assert (numbers[0] == 8);

    Gpu.ContextFlags flags = OWN | SCHED_BLOCKING;
    assert ((new Gpu.Context (context.get_device (), flags).flags & flags) == flags);

    if (!(Gpu.Capabilities.IPC_FDS in context.get_device ().get_capabilities ()))
        return;
    var fds = new UnixFDList ();
    var shared = new Gpu.Buffer (context, Gpu.MemoryFlags.SHAREABLE, 64);
    shared.fill_all ({ 9 });
    var other = new Gpu.Buffer.from_fds (context, shared.export_fds (fds), fds);
    assert (other.read ()[63] == 9);
}

void with_regions (Gpu.Context context) throws Error {
    var stream = new Gpu.Stream (context);
    var source = new Gpu.Buffer.from_bytes (context, Gpu.MemoryFlags.NONE, new Bytes (ramp (64)));
    var target = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, 64);
    Gpu.Layout from = { 1, 5, 0, 8, 0 };
    Gpu.Layout to = { 4, 1, 0, 16, 0 };
    target.fill_all ({ 255 });
    stream.copy_region (target, to, source, from, { 3, 2, 1 });
    stream.synchronize ();
    check_bytes (target.read_bytes (null, 19, 5), { 255, (uint8) (41 * 7), (uint8) (42 * 7),
                 (uint8) (43 * 7), 255 });
    check_bytes (target.read_bytes (null, 36, 3), { (uint8) (49 * 7), (uint8) (50 * 7),
                 (uint8) (51 * 7) });
}

// An allocator that counts its allocations.
class Counting : Object, Gpu.Allocator {
    private Gpu.Context context;
    public int n = 0;

    public Counting (Gpu.Context context) {
        this.context = context;
    }

    public unowned Gpu.Context? get_context () {
        return context;
    }

    public Gpu.Memory? alloc (size_t size, Gpu.Stream? stream) throws Error {
        if (size > 1000)
            throw new Gpu.Error.OUT_OF_DEVICE_MEMORY ("%zu bytes are too much", size);
        n++;
        return new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, size);
    }
}

void with_allocators (Gpu.Context context) throws Error {
    var counting = new Counting (context);
    var limit = new Gpu.LimitAllocator (counting, 1500);
    var statistics = new Gpu.StatisticsAllocator (limit);
    Gpu.Memory? memory = statistics.alloc (1000);
    assert (memory.get_size () == 1000 && counting.n == 1);
    assert (statistics.alloc (0) == null && counting.n == 1);
    assert (statistics.get_context () == context);
    context.get_default_stream ().fill (memory, 0, 1000, { 1, 2 });
    assert (((Gpu.Buffer) memory).read (998)[1] == 2);
    try {
        statistics.alloc (501);
        assert_not_reached ();
    } catch (Gpu.Error e) {
        assert (e is Gpu.Error.OUT_OF_DEVICE_MEMORY && "limit of 1500" in e.message);
    }
    statistics.free (memory);
    assert (memory.is_released () && statistics.current_bytes == 0);
    assert (limit.active_bytes == 0);
    try {
        statistics.alloc (1001);
        assert_not_reached ();
    } catch (Gpu.Error e) {
        assert (e is Gpu.Error.OUT_OF_DEVICE_MEMORY && "too much" in e.message);
    }
    assert (limit.active_bytes == 0 && statistics.total_bytes == 1000);

    uint64 free_size;
    uint64 total_size;
    assert (statistics.get_memory_info (out free_size, out total_size));
    assert (free_size <= 1500 && total_size == 1500);

    Gpu.Allocator deferred = new Gpu.DeferredAllocator (context, Gpu.MemoryFlags.NONE);
    assert (deferred.alloc (16).get_size () == 16);
    assert (new Gpu.HostAllocator (context, Gpu.HostMemoryFlags.NONE).alloc (16).get_size () == 16);
}

void with_pool (Gpu.Context context) throws Error {
    var pool = new Gpu.MemoryPool (context);
    var stream = new Gpu.Stream (context);
    var one = pool.alloc_buffer (1000, stream);
    var other = pool.alloc_buffer (2000);
    stream.fill (one, 0, 1000, { 1 });
    stream.fill (other, 0, 2000, { 2 });
    assert (one.read (999)[0] == 1 && other.read ()[1999] == 2);
    assert (pool.active_blocks == 2 && pool.active_bytes == 3000);
    one = null;
    Gpu.Allocator allocator = pool;
    allocator.free (other);
    assert (pool.active_blocks == 0 && pool.alloc_buffer (0) == null);
    Gpu.Memory? memory = allocator.alloc (10);
    assert (memory.get_size () == 10 && pool.active_blocks == 1);
    memory = null;
    uint64 n_allocs = 0;
    pool.get_statistics ().lookup ("n-allocs", "t", out n_allocs);
    assert (n_allocs == 3);

    if (Gpu.Capabilities.SUB_BUFFERS in context.get_device ().get_capabilities ()) {
        try {
            pool.alloc_block (10);
            assert_not_reached ();
        } catch (Gpu.Error e) {
            assert (e is Gpu.Error.NOT_SUPPORTED && "no device addresses" in e.message);
        }
        return;
    }
    var block = pool.alloc_block (3000);
    var address = block.get_address ();
    assert (block.get_size () == 3000 && address % 512 == 0 && pool.active_blocks == 1);
    pool.free_block ((owned) block, stream);
    assert (block == null && pool.active_blocks == 0);
    block = pool.alloc_block (3000, stream);
    assert (block.get_address () == address);
    block = null;
    assert (pool.active_blocks == 0);
}

void with_errors (Gpu.Context context) throws Error {
    var buffer = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, 100);
    int n_errors = 0;
    try {
        buffer.read_bytes (null, 50, 51);
    } catch (Gpu.Error.INVALID_ARGUMENT e) {
        assert ("100" in e.message);
        n_errors++;
    }
    try {
        new Gpu.Program.from_source (context,
                                     "__kernel void f (__global int *x) { x[0] = no (); }");
    } catch (Gpu.Error.BUILD_FAILED e) {
        n_errors++;
    }
    buffer.release ();
    try {
        buffer.read_bytes (null, 0, 1);
    } catch (Gpu.Error e) {
        assert (e is Gpu.Error.RELEASED);
        n_errors++;
    }
    try {
        Gpu.Device.find ("nothing-like-it");
    } catch (Gpu.Error.NO_DEVICE e) {
        n_errors++;
    }
    assert (n_errors == 4);
}

void with_images (Gpu.Context context) throws Error {
    Gpu.ImageFormat format = { Gpu.ChannelOrder.RGBA, Gpu.ChannelType.UNORM8 };
    Gpu.Extent extent = { 8, 4, 1 };
    var data = ramp (8 * 4 * 4);
    var image = new Gpu.Image (context, Gpu.MemoryFlags.NONE, format, Gpu.ImageType.IMAGE_2D,
                               extent);
    image.write (new Bytes (data));
    check_bytes (image.read (), data);
    assert (image.width == 8 && image.height == 4 && image.texel_size == 4);
    assert (image.get_format ().to_string () == "rgba-unorm8");
    assert (Gpu.ImageFormat.from_string ("rgba-unorm8").equal (format));
    Gpu.ImageFormat small = Gpu.ImageFormat.from_string ("r-float32");
    assert (small.channel_type == Gpu.ChannelType.FLOAT32);

    image.fill_all ({ 1, 0, 1, 1 });
    image.write_bytes (null, { 2, 1 }, { 1, 1, 1 }, new Bytes ({ 1, 2, 3, 4 }), 0, 0);
    check_bytes (image.read_bytes (null, { 1, 1 }, { 2, 1, 1 }), { 255, 0, 255, 255, 1, 2, 3, 4 });

    int n_formats = 0;
    foreach (unowned var one in context.list_image_formats (Gpu.MemoryFlags.NONE,
                                                            Gpu.ImageType.IMAGE_2D))
        n_formats += one.equal (format) ? 1 : 0;
    assert (n_formats == 1);
    try {
        image.write (new Bytes ({ 1, 2, 3 }));
        assert_not_reached ();
    } catch (Gpu.Error.INVALID_ARGUMENT e) {
    }
    try {
        Gpu.ImageFormat.from_string ("rgba");
        assert_not_reached ();
    } catch (Gpu.Error.INVALID_ARGUMENT e) {
    }
}

void with_samplers (Gpu.Context context) throws Error {
    Gpu.ImageFormat format = { Gpu.ChannelOrder.RGBA, Gpu.ChannelType.UNORM8 };
    Gpu.Extent extent = { 8, 4, 1 };
    var data = ramp (8 * 4 * 4);
    var source = new Gpu.Image.from_bytes (context, Gpu.MemoryFlags.READ_ONLY, format,
                                           Gpu.ImageType.IMAGE_2D, extent, new Bytes (data), 0, 0);
    var target = new Gpu.Image (context, Gpu.MemoryFlags.WRITE_ONLY, format,
                                Gpu.ImageType.IMAGE_2D, extent);
    var sampler = new Gpu.Sampler (context, false, Gpu.AddressMode.CLAMP_TO_EDGE,
                                   Gpu.FilterMode.NEAREST);
    var program = new Gpu.Program.from_source (context, IMAGE_SOURCE);
    context.get_default_stream ().launch (program.get_kernel ("mirror"), extent, null, source,
                                          sampler, target);
    var bytes = target.read ();
    for (int i = 0; i < 8 * 4 * 4; i++) {
        int x = i / 4 % 8;
        assert (bytes[i] == data[i + (7 - 2 * x) * 4]);
    }
}

// In Vala the flags are the last parameter of the constructors, and optional. In C they precede the
// other values.
void with_host_memory (Gpu.Context context) throws Error {
    var memory = new Gpu.HostMemory (context, 1000);
    var flagged = new Gpu.HostMemory (context, 10, Gpu.HostMemoryFlags.WRITE_COMBINED);
    assert (memory.get_size () == 1000 && flagged.get_size () == 10);
    unowned var data = memory.get_data ();
    assert (data.length == 1000 && (void*) data == memory.get_pointer ());
    data[999] = 5;
    assert (memory.read_bytes (999, 1)[0] == 5);
    memory.release ();
    assert (memory.get_data ().length == 0 && memory.get_pointer () == null);

    if (!(Gpu.Capabilities.SVM_COARSE in context.get_device ().get_capabilities ()))
        return;
    var svm = new Gpu.Svm (context, 1000);
    assert (svm.get_size () == 1000 && svm.alignment == 0);
    svm = new Gpu.Svm (context, 500, Gpu.SvmFlags.NONE, Gpu.MemoryFlags.READ_ONLY, 256);
    assert (svm.get_size () == 500 && svm.alignment == 256);
    assert (Gpu.MemoryFlags.READ_ONLY in svm.get_flags ());
}

async void copy_files (Gpu.Context context) throws Error {
    var data = ramp (1000);
    var source = Gpu.Buffer.from_data (context, data);
    var target = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, 1000);
    FileIOStream stream;
    var path = File.new_tmp (null, out stream);
    var file = Gpu.File.open (path, Gpu.FileFlags.READ | Gpu.FileFlags.WRITE);
    int64 reported = 0;
    yield source.write_file_async (null, 0, file, 0, 1000);
    yield target.read_file_async (null, 0, file, 0, 1000);
    check_bytes (target.read (), data);
    target.fill_all ({ 0 });
    yield target.read_file_async (null, 0, file, 0, 1000, null, (current, total) => {
        assert (total == 1000);
        reported = current;
    });
    assert (reported == 1000);
    check_bytes (target.read (), data);
    path.delete ();
}

async void do_async (Gpu.Context context) throws Error {
    var data = ramp (1 << 16);
    var buffer = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, 1 << 16);
    yield buffer.write_async (new Bytes (data), null);
    check_bytes (yield buffer.read_async (10, null, 5), data[5:15]);
    int64 reported = 0;
    yield buffer.write_async (new Bytes (data), null, 0, null, (current, total) => {
        assert (total == 1 << 16 && current > reported);
        reported = current;
    });
    assert (reported == 1 << 16);
    check_bytes (yield buffer.read_async (10, null, 5, null, (current) => { reported = current; }),
                 data[5:15]);
    assert (reported == 10);
    buffer.context.get_default_stream ().fill (buffer, 0, 16, { 3 });
    yield buffer.wait_async ();
    var bytes = yield buffer.read_bytes_async (null, 0, 1 << 16);
    assert (bytes[0] == 3 && bytes[15] == 3);
    check_bytes (bytes[16:1 << 16], data[16:1 << 16]);

    yield copy_files (context);
    var stream = new Gpu.Stream (context);
    Gpu.Event? gate = null;
    if (Gpu.Capabilities.USER_EVENTS in context.get_device ().get_capabilities ()) {
        gate = new Gpu.Event.user (context);
        stream.wait_event (gate);
    }
    stream.fill (buffer, 0, 1 << 16, { 4 });
    var event = stream.record ();
    assert (gate == null || event.query () == Gpu.EventStatus.PENDING);
    int n_completed = 0;
    event.completed.connect (() => n_completed++);
    event.watch ();
    Idle.add (() => {
        try {
            if (gate != null)
                gate.complete ();
        } catch (Error e) {
            error ("%s", e.message);
        }
        return Source.REMOVE;
    });
    yield event.wait_async ();
    assert (event.query () == Gpu.EventStatus.COMPLETE);
    yield stream.synchronize_async ();
    while (n_completed == 0) {
        Timeout.add (1, do_async.callback);
        yield;
    }
    assert (n_completed == 1);

    var mapping = yield buffer.map_async (null, Gpu.MapFlags.READ, 0, 1 << 16);
    unowned var mapped = (uint8[]) mapping.get_data ();
    assert (mapped[0] == 4 && mapped[65535] == 4);

    var cancellable = new Cancellable ();
    cancellable.cancel ();
    try {
        yield event.wait_async (cancellable);
        assert_not_reached ();
    } catch (IOError.CANCELLED e) {
    }
}

void with_async (Gpu.Context context) throws Error {
    var loop = new MainLoop ();
    Error? failure = null;
    do_async.begin (context, (source, result) => {
        try {
            do_async.end (result);
        } catch (Error e) {
            failure = e;
        }
        loop.quit ();
    });
    loop.run ();
    if (failure != null)
        throw failure;
}

// Tests that build a program
const string[] PROGRAMS = { "kernels", "launches", "samplers" };

// Tests with images
const string[] IMAGES = { "images", "samplers" };

[CCode (has_target = false)]
delegate void TestFunc (Gpu.Context context) throws Error;

// Returns whether the word is the ID or the back end of the device, or a part of the name of its
// platform or of the device, as in test-util.c
bool matches (Gpu.Device device, string word) {
    if (word == device.get_id () || word == device.get_backend ())
        return true;
    if (word.has_prefix (device.get_backend () + ":")) {
        try {
            if (Gpu.Device.find (word).equal (device))
                return true;
        } catch (Error e) {
        }
        var platform = device.platform;
        var part = word.substring (device.get_backend ().length + 1);
        return platform != null && part.down () in platform.down ();
    }
    return word.down () in device.get_name ().down ();
}

bool is_chosen (Gpu.Device device) {
    unowned var choice = Environment.get_variable ("GPUMEM_TEST");
    if (choice == null || choice == "") {
        try {
            return device.check ();
        } catch (Error e) {
            return false;
        }
    }
    foreach (var word in choice.replace (";", ",").split (",")) {
        if (word.strip () != "" && matches (device, word.strip ()))
            return true;
    }
    return false;
}

void with_arrays (Gpu.Context context) throws Error {
    uint8[] data = {};
    for (uint8 i = 0; i < 12; i++)
        data += i;
    Gpu.DType dtype = Gpu.DType.UINT8;
    var array = new Gpu.Array.from_bytes (context, null, null, dtype, { 3, 4 },
                                          Gpu.ArrayOrder.C, new Bytes (data));
    assert (array.get_shape ()[1] == 4);
    assert (array.get_strides ()[0] == 4);
    var part = array.slice (0, 2, 0, -1).index (1, 3);
    var bytes = part.read_bytes (null, Gpu.ArrayOrder.C);
    assert (bytes.length == 2);
    assert (bytes[0] == 11 && bytes[1] == 7);
    var turned = array.transpose (null);
    assert (turned.read_bytes (null, Gpu.ArrayOrder.C)[1] == 4);
    assert (array.split (0, 2).length == 2);
    var rows = new Gpu.Array (context, dtype, { 2, 4 });
    var stream = new Gpu.Stream (context);
    stream.take_rows (rows, array, { 2, -3 });
    assert (rows.read_bytes (stream, Gpu.ArrayOrder.C)[7] == 3);
    stream.put_rows (array, rows, { 1, 1 });
    assert (array.read_bytes (stream, Gpu.ArrayOrder.C)[7] == 3);
    try {
        turned.ravel (Gpu.ArrayOrder.C);
        assert_not_reached ();
    } catch (Gpu.Error e) {
        assert (e is Gpu.Error.INVALID_ARGUMENT);
    }
}

void run_test (Gpu.Device device, string name, TestFunc func) {
    if (name in PROGRAMS && !(Gpu.Capabilities.SOURCE in device.get_capabilities ())) {
        Test.skip (@"$(device.get_id ()) lacks source");
        return;
    }
    if (name in IMAGES && !(Gpu.Capabilities.IMAGES in device.get_capabilities ())) {
        Test.skip (@"$(device.get_id ()) lacks images");
        return;
    }
    try {
        func (new Gpu.Context (device));
    } catch (Error e) {
        error ("%s", e.message);
    }

    var deadline = get_monotonic_time () + 30 * TimeSpan.SECOND;
    while (Gpu.debug_list_live_objects ().n_children () > 0) {
        while (MainContext.default ().iteration (false)) {
        }
        if (get_monotonic_time () > deadline)
            error ("still alive: %s", Gpu.debug_list_live_objects ().print (false));
        Thread.usleep (500);
    }
}

void add_test (Gpu.Device device, string name, TestFunc func) {
    Test.add_data_func (@"/vala/$(device.get_id ())/$name", () => run_test (device, name, func));
}

int main (string[] args) {
    Test.init (ref args);
    int n_devices = 0;
    foreach (var device in Gpu.Device.list ()) {
        if (!is_chosen (device))
            continue;
        n_devices++;
        add_test (device, "buffers", with_buffers);
        add_test (device, "mappings", with_mappings);
        add_test (device, "much-memory", with_much_memory);
        add_test (device, "kernels", with_kernels);
        add_test (device, "launches", with_launches);
        add_test (device, "regions", with_regions);
        add_test (device, "images", with_images);
        add_test (device, "samplers", with_samplers);
        add_test (device, "host-memory", with_host_memory);
        add_test (device, "allocators", with_allocators);
        add_test (device, "pool", with_pool);
        add_test (device, "arrays", with_arrays);
        add_test (device, "errors", with_errors);
        add_test (device, "bytes", with_bytes);
        add_test (device, "async", with_async);
    }
    if (n_devices == 0)
        error ("no device to test");
    return Test.run ();
}
