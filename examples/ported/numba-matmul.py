#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""numba-matmul: multiplies matrices in tiles. The tiles are in local memory, which a work-group
shares. Based on the example in Numba's documentation."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

TILE = 16

SOURCE = """
__kernel void
multiply (__global const float *a, __global const float *b, __global float *c, int rows,
          int inner, int columns)
{
  __local float tile_a[TILE][TILE];
  __local float tile_b[TILE][TILE];
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  int u = (int) get_local_id (0);
  int v = (int) get_local_id (1);
  float sum = 0;

  for (int first = 0; first < inner; first += TILE)
    {
      tile_a[v][u] = y < rows && first + u < inner ? a[y * inner + first + u] : 0;
      tile_b[v][u] = x < columns && first + v < inner ? b[(first + v) * columns + x] : 0;
      barrier (CLK_LOCAL_MEM_FENCE);
      for (int k = 0; k < TILE; k++)
        sum += tile_a[v][k] * tile_b[k][u];
      barrier (CLK_LOCAL_MEM_FENCE);
    }
  if (x < columns && y < rows)
    c[y * columns + x] = sum;
}
"""


def multiply(stream, kernel, pool, a, b):
    """Returns a @ b, computed on the device in buffers of the pool."""
    (rows, inner), columns = a.shape, b.shape[1]
    on_device = [pool.alloc_buffer(array.nbytes, stream) for array in (a, b)]
    product = pool.alloc_buffer(rows * columns * a.itemsize, stream)
    for buffer, array in zip(on_device, (a, b)):
        stream.write(buffer, array)
    grid = [-(-length // TILE) * TILE for length in (columns, rows)]
    kernel(stream, grid, (TILE, TILE), *on_device, product, rows, inner, columns)
    return product.to_numpy(a.dtype, (rows, columns), stream=stream)


def run():
    context = Gpu.Context.new_default()
    pool = Gpu.MemoryPool(context)
    kernel = Gpu.Program(context, SOURCE, f"-DTILE={TILE}").multiply

    for rows, inner, columns in ((4, 4, 4), (5, 23, 7), (64, 100, 48)):
        a = np.arange(rows * inner, dtype=np.float32).reshape(rows, inner)
        b = np.ones((inner, columns), np.float32)
        product = multiply(context.default_stream, kernel, pool, a, b)
        if not np.array_equal(product, a @ b):
            sys.exit(f"numba-matmul: the product is wrong:\n{product}")
        print(f"{rows} x {inner} by {inner} x {columns} on {context.device.id} is right, up to "
              f"{product.max():.0f}")


try:
    run()
except GLib.Error as error:
    sys.exit(f"numba-matmul: {error.message}")
