/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* A device as found by its back end. Lives as long as the process. */
struct _GpuNativeDevice
{
  const GpuBackend *backend;
  char             *id;             /* "opencl:0:1", unique, an argument for gpu_device_find() */
  char             *name;
  char             *vendor;
  char             *platform;       /* nullable */
  char             *version;        /* of the API: "OpenCL 3.0 ..." */
  char             *driver_version;
  char             *pci_bus_id;     /* "0000:01:00.0", nullable */
  char             *unusable;       /* the reason why the device cannot be used; NULL if it can */
  GpuDeviceType     type;
  GpuCapabilities   capabilities;
  guint64           memory_size;    /* bytes */
  guint64           max_allocation; /* bytes of one allocation */
  gsize             base_alignment; /* bytes; alignment of allocations and of the offsets of
                                     * slices */
  GpuSvmFlags       usm_kinds;      /* the supported kinds of unified shared memory */
  gboolean          takes_addresses; /* OpenCL: pointer arguments of kernels may be addresses */
  gboolean          has_addresses;  /* OpenCL: buffers of contexts with one device have addresses */
  gboolean          has_host_chunks; /* GpuVirtualOps can map page-locked memory of the host */
  gboolean          has_short_ids;  /* global ids wrap around at 2^32 */
  guint             row_alignment;  /* texels; alignment of the rows of images over buffers; 0 if
                                     * unknown */
  guint64           handle;
  GpuDevice        *object;         /* atomic; owned; NULL until first used */
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
  /* Called by gpu_device_list() and similar functions, with the registry's lock held. Called once
   * per process, or again after a failure. Appends every device, usable or not. Returns FALSE with
   * @error if the driver is absent. */
  gboolean (*enumerate)      (GPtrArray        *devices,
                              GError          **error);
  /* any thread. Adds all attributes that the driver reports, with nicks such as
   * "max-work-group-size" as keys. */
  GpuDeviceGetAttributesOp *get_attributes;
  /* any thread; may be NULL if no device can access the memory of another device. Sets @can_access
   * to whether the kernels and the copies that run on @device can access the memory of @peer,
   * another device of this back end. */
  GpuDeviceCanAccessPeerOp *can_access_peer;
  /* any thread; may be NULL. Adds the attributes that the driver reports for the link from @device
   * to @peer, with their nicks as keys. */
  GpuDeviceGetPeerAttributesOp *get_peer_attributes;
} GpuDeviceOps;

G_END_DECLS
