/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared code of the C tests: devices, test data, checks of errors, and the check that a test
 * leaves no objects alive. */
#pragma once

#include <string.h>

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* Each test has its own context on one device; `stream` is the context's default stream. */
typedef struct
{
  GpuDevice  *device;
  GpuContext *context;
  GpuStream  *stream;
} TestFixture;

typedef void (*TestFunc) (TestFixture *fixture);

/* A test of a list */
typedef struct
{
  const char *name;
  TestFunc    func;
} TestEntry;

#define TEST_ENTRY(func) { #func, func }

typedef struct _TestHold TestHold;

/* Seconds after which an operation counts as hung. */
#define TEST_DEADLINE 30
/* Microseconds after which a program counts as hung that a test starts. */
#define TEST_CHILD_TIMEOUT (4 * TEST_DEADLINE * G_USEC_PER_SEC)

/* GPUMEM_TEST selects the devices: ids, back ends, or parts of names, separated by commas or
 * semicolons ("opencl:pocl;host"); by default all usable devices. Also starts the watchdog (see
 * test-watchdog-util.h). */
void          test_init           (int           *argc,
                                   char        ***argv);
/* (transfer none): the selected devices. */
GPtrArray    *test_devices        (void);
/* Adds /PROGRAM/DEVICE/NAME for each selected device. */
void          test_add            (const char    *name,
                                   TestFunc       func);
/* Adds the tests of @list, and the test "subprocess/all", which runs all of them in one process,
 * for example with a setting of the driver. Devices for which @is_device returns FALSE are skipped.
 * @list must stay valid. A program may call this function once. */
void          test_add_list       (const TestEntry *list,
                                   gsize           n,
                                   gboolean      (*is_device) (TestFixture *fixture));
/* Adds /PROGRAM/NAME, which runs without a device. */
void          test_add_plain      (const char    *name,
                                   void         (*func) (void));
int           test_run            (void);
/* Runs /PROGRAM/DEVICE/subprocess/NAME in a separate process with the OpenCL layer. Skips the test
 * on devices of other back ends. */
void          test_run_under_layer (TestFixture  *fixture,
                                   const char    *name);

/* Drops the fixture's context, which must not be used afterwards. */
void          test_drop_context   (TestFixture   *fixture);

/* Skips the test, with a reason, unless the device has the capability. */
gboolean      test_has            (TestFixture   *fixture,
                                   GpuCapabilities capability);
/* Like test_has(), but also skips the test on devices that do not belong to the CUDA back end. */
gboolean      test_is_cuda        (TestFixture   *fixture,
                                   GpuCapabilities capability);
gboolean      test_is_opencl      (TestFixture   *fixture);
/* Gets a property: a string is interned, a number of any type is converted. */
const char   *test_get_string     (gpointer       object,
                                   const char    *property);
guint64       test_get_number     (gpointer       object,
                                   const char    *property);
/* Prepares a launch and submits it. */
gboolean      test_launch         (GpuStream       *stream,
                                   GpuKernel       *kernel,
                                   const GpuExtent *grid,
                                   const GpuExtent *block,
                                   gsize            shared_size,
                                   GpuLaunchFlags   flags,
                                   GpuArguments    *arguments,
                                   GError         **error);
/* Returns the attribute @nick of a device or a kernel, or NULL. Takes ownership of @attributes. */
GVariant     *test_take_attribute (GVariant      *attributes,
                                   const char    *nick);
/* Gets a property that is an object. The caller does not own the result: @object holds the
 * reference. */
gpointer      test_get_object     (gpointer       object,
                                   const char    *property);
/* docs/internals/pocl.md and docs/internals/opencl-drivers.md describe how these drivers deviate
 * from OpenCL. */
gboolean      test_is_pocl        (TestFixture   *fixture);
gboolean      test_is_intel_cpu   (TestFixture   *fixture);
gboolean      test_is_nvidia_opencl (TestFixture *fixture);
/* Skips the test, with a reason, unless the device ignores kernel writes outside of images. */
gboolean      test_drops_writes   (TestFixture   *fixture);

GpuBuffer    *test_buffer         (TestFixture   *fixture,
                                   gsize          size);
GpuBuffer    *test_buffer_filled  (TestFixture   *fixture,
                                   gsize          size,
                                   guint8         value);
GpuBuffer    *test_buffer_from    (TestFixture   *fixture,
                                   GBytes        *bytes);
GpuStream    *test_stream         (TestFixture   *fixture,
                                   GpuStreamFlags flags);
GpuEvent     *test_record         (GpuStream     *stream);
/* Blocks the stream until the test completes the returned event, which the caller owns. */
GpuEvent     *test_gate           (TestFixture   *fixture,
                                   GpuStream     *stream);
void          test_open           (GpuEvent      *gate);
/* Keeps the stream busy until the test releases it: with a kernel, or with a user event if kernels
 * cannot see writes of the host. test_can_hold() skips the test, with a reason, if the device
 * supports neither. */
gboolean      test_can_hold       (TestFixture   *fixture);
TestHold     *test_hold           (GpuStream     *stream);
void          test_hold_release   (TestHold      *hold);
void          test_hold_free      (TestHold      *hold);
void          test_synchronize    (GpuStream     *stream);
GpuProgram   *test_program        (TestFixture   *fixture,
                                   const char    *source);
GpuKernel    *test_kernel         (TestFixture   *fixture,
                                   const char    *source,
                                   const char    *name);

GBytes       *test_random_bytes   (gsize          size);
GBytes       *test_value_bytes    (gsize          size,
                                   guint8         value);
/* Returns the content of a whole buffer, read on a new stream. */
GBytes       *test_content        (GpuBuffer     *buffer);

/* Fails unless @to at @to_offset and @from at @from_offset are the same memory: one stream writes
 * through @to, and another stream reads through @from, without an explicit wait. */
void          test_same_memory    (TestFixture   *fixture,
                                   GpuBuffer     *to,
                                   gsize          to_offset,
                                   GpuBuffer     *from,
                                   gsize          from_offset);

/* Ends a child process that was forked, with an exit status up to 9. */
void          test_end_child      (int            status) G_GNUC_NORETURN;

/* Iterates the thread's GMainContext until *@done is TRUE. Fails after TEST_DEADLINE. Any other
 * thread that sets *@done must do so atomically, and wake the context. */
void          test_wait_until     (gboolean      *done);
/* test_take_result() is a GAsyncReadyCallback that stores the result in a GAsyncResult **.
 * test_await() waits for this result. */
void          test_take_result    (GObject       *source,
                                   GAsyncResult  *result,
                                   gpointer       user_data);
GAsyncResult *test_await          (GAsyncResult **result);
/* Fails unless all objects of the library are freed soon. */
void          test_check_no_objects (void);

#define test_assert_ok(expression, error) \
  G_STMT_START { \
    gboolean test_ok_ = (expression) ? TRUE : FALSE; \
    g_assert_no_error (error); \
    g_assert_true (test_ok_); \
  } G_STMT_END

/* Checks the code of the error, and that the message contains each of the words. Clears the
 * error. */
#define test_assert_gpu_error(error, code, ...) \
  test_assert_error_at (G_STRLOC, &(error), GPU_ERROR, code, __VA_ARGS__ __VA_OPT__ (,) NULL)
#define test_assert_any_error(error, domain, code, ...) \
  test_assert_error_at (G_STRLOC, &(error), domain, code, __VA_ARGS__ __VA_OPT__ (,) NULL)
void          test_assert_error_at (const char   *location,
                                    GError      **error,
                                    GQuark        domain,
                                    int           code,
                                    ...) G_GNUC_NULL_TERMINATED;

/* Reports the first byte that differs. */
#define test_assert_mem(got, expected, size) \
  test_assert_mem_at (G_STRLOC, got, expected, size)
void          test_assert_mem_at   (const char   *location,
                                    gconstpointer got,
                                    gconstpointer expected,
                                    gsize         size);
#define test_assert_value(got, value, size) \
  test_assert_value_at (G_STRLOC, got, value, size)
void          test_assert_value_at (const char   *location,
                                    gconstpointer got,
                                    guint8        value,
                                    gsize         size);
#define test_assert_bytes(got, expected) \
  test_assert_bytes_at (G_STRLOC, got, expected)
void          test_assert_bytes_at (const char   *location,
                                    GBytes       *got,
                                    GBytes       *expected);
/* Returns (transfer full) (nullable) the checksum of the content. */
char         *test_get_digest     (GpuBuffer     *buffer,
                                   GError       **error);
/* Counts the descriptors of this process whose file matches the regular expression. */
guint         test_count_descriptors (const char    *pattern);
#define test_assert_content(buffer, expected) \
  test_assert_content_at (G_STRLOC, buffer, expected)
void          test_assert_content_at (const char *location,
                                      GpuBuffer  *buffer,
                                      GBytes     *expected);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TestHold, test_hold_free)

/* A kernel that follows the pointers of a list, adds up the values and counts the visits. */
#define TEST_WALK_SOURCE \
  "struct node { __global struct node *next; int value; int visits; };\n" \
  "__kernel void walk (__global struct node *first, __global int *sum)\n" \
  "{\n" \
  "  __global struct node *node;\n" \
  "  int total = 0;\n" \
  "  for (node = first; node != 0; node = node->next)\n" \
  "    {\n" \
  "      total += node->value;\n" \
  "      node->visits += 1;\n" \
  "    }\n" \
  "  sum[0] = total;\n" \
  "}\n"

G_END_DECLS
