// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Short forms of frequent calls. Optional parameters are last, regardless of their position in C. A
// null stream selects the default stream.
namespace Gpu {
    // vapigen drops the parentheses of (a - b) / c, and conditions with ||: avoid both here.
    public sealed class Buffer : Gpu.Memory {
        // Reads from offset to the end of the buffer
        [CCode (cname = "_vala_gpu_buffer_read")]
        public GLib.Bytes read (size_t offset = 0, Gpu.Stream? stream = null,
                                GLib.Cancellable? cancellable = null) throws GLib.Error {
            size_t size = size_t.max (this.get_size (), offset) - offset;
            GLib.Bytes result = this.read_bytes (stream, offset, size, cancellable);
            return result;
        }

        // Like read(), but returns an array. Fails if there are 2 GiB or more to read
        [CCode (cname = "_vala_gpu_buffer_read_data")]
        public uint8[] read_data (size_t offset = 0, Gpu.Stream? stream = null,
                                  GLib.Cancellable? cancellable = null) throws GLib.Error {
            size_t size = this.count (offset, 1);
            GLib.Bytes bytes = this.read_bytes (stream, offset, size, cancellable);
            uint8[] result = GLib.Bytes.unref_to_data ((owned) bytes);
            return result;
        }

        // Reads data.length bytes
        [CCode (cname = "gpu_buffer_read")]
        public bool read_into ([CCode (pos = 0.3, array_length_pos = 0.4,
                                       array_length_type = "gsize")] uint8[] data,
                               [CCode (pos = 0.2)] size_t offset = 0,
                               [CCode (pos = 0.1)] Gpu.Stream? stream = null,
                               GLib.Cancellable? cancellable = null) throws GLib.Error;

        // Reads size bytes to any address
        [CCode (cname = "gpu_buffer_read")]
        public bool read_memory ([CCode (pos = 0.3)] void *data, [CCode (pos = 0.4)] size_t size,
                                 [CCode (pos = 0.2)] size_t offset = 0,
                                 [CCode (pos = 0.1)] Gpu.Stream? stream = null,
                                 GLib.Cancellable? cancellable = null) throws GLib.Error;

        // Writes size bytes from any address
        [CCode (cname = "gpu_buffer_write")]
        public bool write_memory ([CCode (pos = 0.3)] void *data, [CCode (pos = 0.4)] size_t size,
                                  [CCode (pos = 0.2)] size_t offset = 0,
                                  [CCode (pos = 0.1)] Gpu.Stream? stream = null,
                                  GLib.Cancellable? cancellable = null) throws GLib.Error;

        // Returns the number of items of item bytes from offset to the end of the buffer
        [CCode (cname = "_vala_gpu_buffer_count")]
        public int count (size_t offset, size_t item) throws GLib.Error {
            size_t size = size_t.max (this.get_size (), offset) - offset;
            size_t n_items = size_t.min (size / size_t.max (item, 1), int.MAX);
            if (size != n_items * item)
                throw new Gpu.Error.INVALID_ARGUMENT (
                    "%zu bytes from offset %zu are not 0 to %d whole items of %zu bytes", size,
                    offset, int.MAX, item);
            int result = (int) n_items;
            return result;
        }

        // Reads the buffer from offset on as numbers of type float
        [CCode (cname = "_vala_gpu_buffer_read_floats")]
        public float[] read_floats (size_t offset = 0, Gpu.Stream? stream = null,
                                    GLib.Cancellable? cancellable = null) throws GLib.Error {
            int n_items = this.count (offset, sizeof (float));
            float[] result = new float[n_items];
            this.read_memory (result, sizeof (float) * result.length, offset, stream, cancellable);
            return result;
        }

        [CCode (cname = "_vala_gpu_buffer_write_floats")]
        public bool write_floats (float[] numbers, size_t offset = 0, Gpu.Stream? stream = null,
                                  GLib.Cancellable? cancellable = null) throws GLib.Error {
            bool result = this.write_memory (numbers, sizeof (float) * numbers.length, offset,
                                             stream, cancellable);
            return result;
        }

        // Reads the buffer from offset on as numbers of type double
        [CCode (cname = "_vala_gpu_buffer_read_doubles")]
        public double[] read_doubles (size_t offset = 0, Gpu.Stream? stream = null,
                                      GLib.Cancellable? cancellable = null) throws GLib.Error {
            int n_items = this.count (offset, sizeof (double));
            double[] result = new double[n_items];
            this.read_memory (result, sizeof (double) * result.length, offset, stream,
                              cancellable);
            return result;
        }

        [CCode (cname = "_vala_gpu_buffer_write_doubles")]
        public bool write_doubles (double[] numbers, size_t offset = 0, Gpu.Stream? stream = null,
                                   GLib.Cancellable? cancellable = null) throws GLib.Error {
            bool result = this.write_memory (numbers, sizeof (double) * numbers.length, offset,
                                             stream, cancellable);
            return result;
        }

        // Reads the buffer from offset on as numbers of type int32
        [CCode (cname = "_vala_gpu_buffer_read_ints")]
        public int32[] read_ints (size_t offset = 0, Gpu.Stream? stream = null,
                                  GLib.Cancellable? cancellable = null) throws GLib.Error {
            int n_items = this.count (offset, sizeof (int32));
            int32[] result = new int32[n_items];
            this.read_memory (result, sizeof (int32) * result.length, offset, stream, cancellable);
            return result;
        }

        [CCode (cname = "_vala_gpu_buffer_write_ints")]
        public bool write_ints (int32[] numbers, size_t offset = 0, Gpu.Stream? stream = null,
                                GLib.Cancellable? cancellable = null) throws GLib.Error {
            bool result = this.write_memory (numbers, sizeof (int32) * numbers.length, offset,
                                             stream, cancellable);
            return result;
        }

        // Reads the buffer from offset on as numbers of type uint32
        [CCode (cname = "_vala_gpu_buffer_read_uints")]
        public uint32[] read_uints (size_t offset = 0, Gpu.Stream? stream = null,
                                    GLib.Cancellable? cancellable = null) throws GLib.Error {
            int n_items = this.count (offset, sizeof (uint32));
            uint32[] result = new uint32[n_items];
            this.read_memory (result, sizeof (uint32) * result.length, offset, stream,
                              cancellable);
            return result;
        }

        [CCode (cname = "_vala_gpu_buffer_write_uints")]
        public bool write_uints (uint32[] numbers, size_t offset = 0, Gpu.Stream? stream = null,
                                 GLib.Cancellable? cancellable = null) throws GLib.Error {
            bool result = this.write_memory (numbers, sizeof (uint32) * numbers.length, offset,
                                             stream, cancellable);
            return result;
        }

        // Creates a buffer with a copy of data
        [CCode (cname = "_vala_gpu_buffer_from_data")]
        public static Gpu.Buffer from_data (Gpu.Context context, uint8[] data,
                                            Gpu.MemoryFlags flags = Gpu.MemoryFlags.NONE)
                                           throws GLib.Error {
            Gpu.Buffer result = new Gpu.Buffer.from_bytes (context, flags, new GLib.Bytes (data));
            return result;
        }

        [CCode (cname = "gpu_buffer_read_bytes_async",
                finish_name = "gpu_buffer_read_bytes_finish")]
        public async GLib.Bytes read_async ([CCode (pos = 0.3)] size_t size,
                                            [CCode (pos = 0.4)]
                                            GLib.Cancellable? cancellable = null,
                                            [CCode (pos = 0.2)] size_t offset = 0,
                                            [CCode (pos = 0.1)] Gpu.Stream? stream = null,
                                            [CCode (pos = 0.5, delegate_target_pos = 0.6,
                                                    destroy_notify_pos = 0.7)]
                                            owned GLib.FileProgressCallback? progress = null)
                                           throws GLib.Error;

        [CCode (cname = "gpu_buffer_write")]
        public bool write ([CCode (pos = 0.3, array_length_pos = 0.4,
                                   array_length_type = "gsize")] uint8[] data,
                           [CCode (pos = 0.2)] size_t offset = 0,
                           [CCode (pos = 0.1)] Gpu.Stream? stream = null,
                           GLib.Cancellable? cancellable = null) throws GLib.Error;
        [CCode (cname = "gpu_buffer_write_bytes_async",
                finish_name = "gpu_buffer_write_bytes_finish")]
        public async bool write_async ([CCode (pos = 0.3)] GLib.Bytes data,
                                       [CCode (pos = 0.4)] GLib.Cancellable? cancellable = null,
                                       [CCode (pos = 0.2)] size_t offset = 0,
                                       [CCode (pos = 0.1)] Gpu.Stream? stream = null,
                                       [CCode (pos = 0.5, delegate_target_pos = 0.6,
                                               destroy_notify_pos = 0.7)]
                                       owned GLib.FileProgressCallback? progress = null)
                                      throws GLib.Error;

        // Fills the whole buffer
        [CCode (cname = "_vala_gpu_buffer_fill_all")]
        public bool fill_all (uint8[] pattern, Gpu.Stream? stream = null,
                              GLib.Cancellable? cancellable = null) throws GLib.Error {
            bool result = this.fill (stream, 0, this.get_size (), pattern, cancellable);
            return result;
        }

        // Copies all of source to offset in this buffer
        [CCode (cname = "_vala_gpu_buffer_copy_from")]
        public bool copy_from (Gpu.Buffer source, size_t offset = 0, Gpu.Stream? stream = null,
                               GLib.Cancellable? cancellable = null) throws GLib.Error {
            bool result = this.copy (stream, offset, source, 0, source.get_size (), cancellable);
            return result;
        }

        // Maps the whole buffer
        [CCode (cname = "_vala_gpu_buffer_map_all")]
        public Gpu.Mapping map_all (Gpu.MapFlags flags = Gpu.MapFlags.NONE,
                                    Gpu.Stream? stream = null,
                                    GLib.Cancellable? cancellable = null) throws GLib.Error {
            Gpu.Mapping result = this.map (stream, flags, 0, this.get_size (), cancellable);
            return result;
        }
    }

    // The fields are the predefined numeric types
    [Compact]
    public class DType {
        [CCode (cname = "GPU_DTYPE_BOOL")]
        public static unowned Gpu.DType BOOL;
        [CCode (cname = "GPU_DTYPE_INT8")]
        public static unowned Gpu.DType INT8;
        [CCode (cname = "GPU_DTYPE_INT16")]
        public static unowned Gpu.DType INT16;
        [CCode (cname = "GPU_DTYPE_INT32")]
        public static unowned Gpu.DType INT32;
        [CCode (cname = "GPU_DTYPE_INT64")]
        public static unowned Gpu.DType INT64;
        [CCode (cname = "GPU_DTYPE_UINT8")]
        public static unowned Gpu.DType UINT8;
        [CCode (cname = "GPU_DTYPE_UINT16")]
        public static unowned Gpu.DType UINT16;
        [CCode (cname = "GPU_DTYPE_UINT32")]
        public static unowned Gpu.DType UINT32;
        [CCode (cname = "GPU_DTYPE_UINT64")]
        public static unowned Gpu.DType UINT64;
        [CCode (cname = "GPU_DTYPE_FLOAT16")]
        public static unowned Gpu.DType FLOAT16;
        [CCode (cname = "GPU_DTYPE_FLOAT32")]
        public static unowned Gpu.DType FLOAT32;
        [CCode (cname = "GPU_DTYPE_FLOAT64")]
        public static unowned Gpu.DType FLOAT64;
        [CCode (cname = "GPU_DTYPE_BFLOAT16")]
        public static unowned Gpu.DType BFLOAT16;
        [CCode (cname = "GPU_DTYPE_COMPLEX64")]
        public static unowned Gpu.DType COMPLEX64;
        [CCode (cname = "GPU_DTYPE_COMPLEX128")]
        public static unowned Gpu.DType COMPLEX128;
    }

    public sealed class HostMemory : Gpu.Memory {
        [CCode (cname = "gpu_host_memory_new", has_construct_function = false)]
        public HostMemory (Gpu.Context context, [CCode (pos = 2.5)] size_t size,
                           [CCode (pos = 1.5)] Gpu.HostMemoryFlags flags =
                               Gpu.HostMemoryFlags.NONE) throws GLib.Error;

        // The address of the memory; null after its release
        [CCode (cname = "gpu_host_memory_get_data")]
        public void* get_pointer ();

        // Reads a part of the memory, after the work that writes to it has completed
        [CCode (cname = "_vala_gpu_host_memory_read_data")]
        public uint8[] read_data (size_t offset, size_t size,
                                  GLib.Cancellable? cancellable = null) throws GLib.Error {
            GLib.Bytes bytes = this.read_bytes (offset, size, cancellable);
            uint8[] result = GLib.Bytes.unref_to_data ((owned) bytes);
            return result;
        }

        // Writes to the memory, after the work that uses it has completed
        [CCode (cname = "_vala_gpu_host_memory_write_data")]
        public bool write_data (uint8[] data, size_t offset = 0,
                                GLib.Cancellable? cancellable = null) throws GLib.Error {
            bool result = this.write_bytes (offset, new GLib.Bytes (data), cancellable);
            return result;
        }

        // The memory, but at most 2 GiB - 1 byte, as an array; empty after its release
        [CCode (cname = "_vala_gpu_host_memory_get_data")]
        public unowned uint8[] get_data () {
            unowned uint8[] result = (uint8[]) this.get_pointer ();
            result.length = (int) size_t.min (this.get_size (), int.MAX);
            if (this.is_released ())
                result.length = 0;
            return result;
        }
    }

    public sealed class Image : Gpu.Memory {
        // Reads the whole image
        [CCode (cname = "_vala_gpu_image_read")]
        public GLib.Bytes read (Gpu.Stream? stream = null,
                                GLib.Cancellable? cancellable = null) throws GLib.Error {
            GLib.Bytes result = this.read_bytes (stream, null, null, cancellable);
            return result;
        }

        // Like read(), but returns an array. There must be less than 2 GiB to read
        [CCode (cname = "_vala_gpu_image_read_data")]
        public uint8[] read_data (Gpu.Stream? stream = null,
                                  GLib.Cancellable? cancellable = null) throws GLib.Error {
            GLib.Bytes bytes = this.read_bytes (stream, null, null, cancellable);
            uint8[] result = GLib.Bytes.unref_to_data ((owned) bytes);
            return result;
        }

        // Writes the whole image, from an array without padding between rows
        [CCode (cname = "_vala_gpu_image_write_data")]
        public bool write_data (uint8[] data, Gpu.Stream? stream = null,
                                GLib.Cancellable? cancellable = null) throws GLib.Error {
            bool result = this.write_bytes (stream, null, null, new GLib.Bytes (data), 0, 0,
                                            cancellable);
            return result;
        }

        // Writes the whole image, from data without padding between rows
        [CCode (cname = "_vala_gpu_image_write")]
        public bool write (GLib.Bytes data, Gpu.Stream? stream = null,
                           GLib.Cancellable? cancellable = null) throws GLib.Error {
            bool result = this.write_bytes (stream, null, null, data, 0, 0, cancellable);
            return result;
        }

        // Fills the whole image
        [CCode (cname = "_vala_gpu_image_fill_all")]
        public bool fill_all (Gpu.Color color, Gpu.Stream? stream = null,
                              GLib.Cancellable? cancellable = null) throws GLib.Error {
            bool result = this.fill (stream, color, null, null, cancellable);
            return result;
        }

        // Maps the whole image
        [CCode (cname = "_vala_gpu_image_map_all")]
        public Gpu.Mapping map_all (Gpu.MapFlags flags = Gpu.MapFlags.NONE,
                                    Gpu.Stream? stream = null,
                                    GLib.Cancellable? cancellable = null) throws GLib.Error {
            Gpu.Mapping result = this.map (stream, flags, null, null, cancellable);
            return result;
        }
    }

    public struct ImageFormat {
        // Parses a format, such as "rgba-unorm8"
        [CCode (cname = "gpu_image_format_new_from_string")]
        public static Gpu.ImageFormat? from_string (string text) throws GLib.Error;
    }

    public sealed class Mapping : GLib.Object {
        // The address of the mapped range; null after unmapping
        [CCode (cname = "gpu_mapping_get_data")]
        public void* get_pointer ();

        // The mapped range, but at most 2 GiB - 1 byte, as an array; empty after unmapping
        [CCode (cname = "_vala_gpu_mapping_get_data")]
        public unowned uint8[] get_data () {
            unowned uint8[] result = (uint8[]) this.get_pointer ();
            result.length = (int) size_t.min (this.get_size (), int.MAX);
            if (!this.mapped)
                result.length = 0;
            return result;
        }
    }

    public sealed class Stream : GLib.Object {
        // Arguments are memory, numbers and sizes of local memory: see the C function
        [CCode (cname = "gpu_stream_launch", error_pos = 3.5, sentinel = "")]
        public bool launch (Gpu.Kernel kernel, Gpu.Extent grid, Gpu.Extent? block, ...)
                           throws GLib.Error;

        // Writes a copy of data, so that the caller may change data after the call
        [CCode (cname = "_vala_gpu_stream_write_data")]
        public bool write_data (Gpu.Memory destination, uint8[] data, size_t offset = 0)
                               throws GLib.Error {
            bool result = this.write (destination, offset, new GLib.Bytes (data));
            return result;
        }
    }

    public sealed class Svm : Gpu.Memory {
        [CCode (cname = "gpu_svm_new", has_construct_function = false)]
        public Svm (Gpu.Context context, [CCode (pos = 3.5)] size_t size,
                    [CCode (pos = 2.5)] Gpu.SvmFlags svm_flags = Gpu.SvmFlags.NONE,
                    [CCode (pos = 1.5)] Gpu.MemoryFlags flags = Gpu.MemoryFlags.NONE,
                    [CCode (pos = 4.5)] size_t alignment = 0) throws GLib.Error;
    }
}
