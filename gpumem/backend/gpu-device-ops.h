/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* A device as its back end found it. Lives as long as the process. */
struct _GpuNativeDevice
{
  const GpuBackend *backend;
  char             *id;             /* "opencl:0:1", unique, what gpu_device_find() takes */
  char             *name;
  char             *vendor;
  char             *platform;       /* nullable */
  char             *version;        /* of the API: "OpenCL 3.0 ..." */
  char             *driver_version;
  char             *pci_bus_id;     /* "0000:01:00.0", nullable */
  char             *unusable;       /* why the device cannot be used; NULL if it can */
  GpuDeviceType     type;
  GpuCapabilities   capabilities;
  guint64           memory_size;    /* bytes */
  guint64           max_allocation; /* bytes of one allocation */
  gsize             base_alignment; /* bytes, of allocations and of the origin of slices */
  GpuSvmFlags       usm_kinds;      /* of unified shared memory that it has */
  guint             row_alignment;  /* texels, of rows of images over buffers; 0: unknown */
  guint64           handle;
};

typedef gboolean GpuDeviceGetAttributesOp (GpuNativeDevice *device,
                                           GVariantDict    *attributes,
                                           GError         **error);
typedef gboolean GpuDeviceCanAccessPeerOp (GpuNativeDevice *device,
                                           GpuNativeDevice *peer,
                                           gboolean        *can_access,
                                           GError         **error);
typedef gboolean GpuDeviceGetPeerAttributesOp (GpuNativeDevice *device,
                                               GpuNativeDevice *peer,
                                               GVariantDict    *attributes,
                                               GError         **error);

typedef struct
{
  /* gpu_device_list() and friends, under the registry's lock, once in a process unless it
   * fails. Appends every device, usable or not. FALSE if the driver is absent: why, in @error. */
  gboolean (*enumerate)      (GPtrArray        *devices,
                              GError          **error);
  /* any thread. Everything the driver tells, by nick: "max-work-group-size". */
  GpuDeviceGetAttributesOp *get_attributes;
  /* any thread; may be NULL: no device then reaches another. Whether kernels and copies of
   * @device can reach the memory of @peer, another one of this back end. */
  GpuDeviceCanAccessPeerOp *can_access_peer;
  /* any thread; may be NULL. What the driver tells of the link from @device to @peer, by nick. */
  GpuDeviceGetPeerAttributesOp *get_peer_attributes;
} GpuDeviceOps;

G_END_DECLS
