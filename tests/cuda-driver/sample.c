/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Texture fetches and surface accesses. Kernels call these functions in stream threads. The host
 * back end's sampler reads textures by CUDA's rules (gpumem/host/executor/gpu-host-texture.h).
 *
 * In CUDA, components that the texels lack are undefined. Here such components have an implausible
 * value, so that programs do not rely on them.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "image.h"

#define NO_COMPONENT 0xcbcbcbcbu

/* Ends the kernel thread and the launch. */
static void
fail (KernelThread *thread,
      const char   *what)
{
  pthread_mutex_lock (&driver_lock);
  misuse (CUDA_ERROR_LAUNCH_FAILED, "in a kernel: %s", what);
  pthread_mutex_unlock (&driver_lock);
  thread->stop (thread, CUDA_ERROR_LAUNCH_FAILED);
}

static gpointer
find (KernelThread *thread,
      guint64       handle,
      ObjectKind    kind)
{
  Object *object;
  gboolean is_alive;

  pthread_mutex_lock (&driver_lock);
  object = object_find (handle);
  is_alive = object != NULL && object->kind == kind && !object->dead;
  pthread_mutex_unlock (&driver_lock);
  if (!is_alive)
    fail (thread, kind == OBJECT_TEXTURE ? "there is no such texture object"
                                         : "there is no such surface object");
  return object;
}

/* --- fetches ---------------------------------------------------------------------------------- */

/* Finds the face of a cube that a direction points to, and the normalized position on this face. */
static guint
find_side (const float direction[3],
           float       place[3])
{
  float x = direction[0], y = direction[1], z = direction[2];
  float most = MAX (MAX (fabsf (x), fabsf (y)), fabsf (z));
  guint side;
  float s, t;

  if (most == fabsf (x))
    {
      side = x < 0;
      s = x < 0 ? z : -z;
      t = -y;
    }
  else if (most == fabsf (y))
    {
      side = 2 + (y < 0);
      s = x;
      t = y < 0 ? -z : z;
    }
  else
    {
      side = 4 + (z < 0);
      s = z < 0 ? -x : x;
      t = -y;
    }
  place[0] = (s / most + 1) / 2;
  place[1] = (t / most + 1) / 2;
  return side;
}

static guint
get_kind (const Texture *texture)
{
  const Array *array = texture->array;
  guint flags = array != NULL ? array->descriptor.Flags : 0;

  if (array == NULL)
    return texture->resource.resType == CU_RESOURCE_TYPE_LINEAR ? FETCH_LINEAR : FETCH_2D;
  if ((flags & CUDA_ARRAY3D_CUBEMAP) != 0)
    return (flags & CUDA_ARRAY3D_LAYERED) != 0 ? FETCH_CUBE_LAYERED : FETCH_CUBE;
  if ((flags & CUDA_ARRAY3D_LAYERED) != 0)
    return array->descriptor.Height > 0 ? FETCH_2D_LAYERED : FETCH_1D_LAYERED;
  return array->descriptor.Depth > 0 ? FETCH_3D : array->descriptor.Height > 0 ? FETCH_2D
                                                                              : FETCH_1D;
}

static void
read_linear (const Texture *texture,
             gint64         place,
             GpuTexel      *texel)
{
  const CUDA_RESOURCE_DESC *resource = &texture->resource;
  guint element = texture->format.size * texture->format.n_channels;
  const guint8 *data = GSIZE_TO_POINTER (resource->res.linear.devPtr);

  if (place >= 0 && (guint64) place < resource->res.linear.sizeInBytes / element)
    _gpu_texel_read (texture->view.formats, data + place * element, texel);
}

void
texture_fetch (KernelThread      *thread,
               const KernelFetch *fetch,
               guint32            result[4])
{
  const Texture *texture = find (thread, fetch->object, OBJECT_TEXTURE);
  const GpuHostTexture *view = &texture->view;
  GpuTexel texel = { .natural = { 0 } };
  float place[3] = { fetch->place[0], fetch->place[1], fetch->place[2] };
  int layer = fetch->layer;

  if (get_kind (texture) != fetch->kind)
    fail (thread, "a texture is read by the function for another kind");
  if (fetch->kind == FETCH_LINEAR)
    read_linear (texture, layer, &texel);
  else
    {
      if (fetch->kind == FETCH_CUBE || fetch->kind == FETCH_CUBE_LAYERED)
        layer = layer * 6 + find_side (fetch->place, place);
      if (view->has_layers)
        place[view->n_dimensions] = layer;
      _gpu_host_texture_sample (view, &texture->sampler, place, &fetch->level, &texel);
    }
  for (guint i = 0; i < G_N_ELEMENTS (texel.natural); i++)
    result[i] = i < texture->format.n_channels ? texel.natural[i] : NO_COMPONENT;
}

/* --- surfaces --------------------------------------------------------------------------------- */

/* Returns FALSE if the position is outside of the surface, unless @outside is OUTSIDE_CLAMP. In
 * that case moves the position to the edge of the surface. */
static gboolean
find_inside (gint64 *place,
             gint64  size,
             guint   outside)
{
  if (*place >= 0 && *place < size)
    return TRUE;
  if (outside != OUTSIDE_CLAMP)
    return FALSE;
  *place = CLAMP (*place, 0, size - 1);
  return TRUE;
}

void
surface_access (KernelThread       *thread,
                const KernelAccess *access)
{
  const Surface *surface = find (thread, access->object, OBJECT_SURFACE);
  const Texture as_texture = { .array = surface->array };
  gint64 x = access->place[0];
  gint64 y = access->place[1];
  gint64 z = array_is_layered (surface->array) ? access->layer : access->place[2];
  GpuHostLevel level;
  guint8 *data;

  array_get_level (surface->array, &level);
  if (get_kind (&as_texture) != access->kind)
    fail (thread, "a surface is used by the function for another kind");
  if (x % access->size != 0)
    fail (thread, "the first coordinate of a surface counts bytes");
  x /= access->size;
  if (!find_inside (&x, level.pitches[1] / access->size, access->outside) ||
      !find_inside (&y, level.sizes[1], access->outside) ||
      !find_inside (&z, level.sizes[2], access->outside))
    {
      if (access->outside == OUTSIDE_TRAP)
        thread->stop (thread, CUDA_ERROR_LAUNCH_FAILED);
      if (!access->writes)
        memset (access->data, 0, access->size);
      return;
    }
  data = level.data + z * level.pitches[2] + y * level.pitches[1] + x * access->size;
  if (access->writes)
    memcpy (data, access->data, access->size);
  else
    memcpy (access->data, data, access->size);
}
