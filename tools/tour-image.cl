/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernels of the tour for devices with images. The sampler defines the pixels outside of an
 * image.
 */

/* One direction of the same blur as in tour.cl. The results are identical to the last bit. */
__kernel void
blur_image (__read_only image2d_t  source,
            sampler_t              edge,
            __write_only image2d_t destination,
            __global const uint   *weights,
            int                    radius,
            int                    along_rows)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  uint red = 32768;
  uint green = 32768;
  uint blue = 32768;
  uint alpha = 32768;
  int i;

  if (x >= get_image_width (destination) || y >= get_image_height (destination))
    return;
  for (i = -radius; i <= radius; i++)
    {
      int u = along_rows ? x + i : x;
      int v = along_rows ? y : y + i;
      uint4 pixel = read_imageui (source, edge, (int2) (u, v));
      uint weight = weights[i + radius];

      red += weight * pixel.x;
      green += weight * pixel.y;
      blue += weight * pixel.z;
      alpha += weight * pixel.w;
    }
  write_imageui (destination, (int2) (x, y),
                 (uint4) (red >> 16, green >> 16, blue >> 16, alpha >> 16));
}

/* Scales the source to the size of the destination. The sampler interpolates. */
__kernel void
resize (__read_only image2d_t  source,
        sampler_t              between,
        __write_only image2d_t destination)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  int width = get_image_width (destination);
  int height = get_image_height (destination);
  float u = ((float) x + 0.5f) / (float) width;
  float v = ((float) y + 0.5f) / (float) height;

  if (x < width && y < height)
    write_imagef (destination, (int2) (x, y), read_imagef (source, between, (float2) (u, v)));
}
