/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Argument descriptions of kernels as GVariants. The program cache stores them, because most
 * drivers describe arguments only for programs built from source.
 */
#include "config.h"

#include "gpumem/program/gpu-kernel-private.h"

/* Fields: kind, name, type name, type code, size, read only. An empty string stands for NULL. */
#define ARGUMENT_TYPE "(yssytb)"
#define PROGRAM_TYPE  "a{sa" ARGUMENT_TYPE "}"

static void
describe (GVariantBuilder *builder,
          const char      *name,
          GpuNativeKernel *kernel)
{
  g_variant_builder_open (builder, G_VARIANT_TYPE ("{sa" ARGUMENT_TYPE "}"));
  g_variant_builder_add (builder, "s", name);
  g_variant_builder_open (builder, G_VARIANT_TYPE ("a" ARGUMENT_TYPE));

  for (guint i = 0; i < kernel->n_arguments; i++)
    {
      const GpuArgumentInfo *argument = &kernel->arguments[i];

      g_variant_builder_add (builder, ARGUMENT_TYPE, (guchar) argument->kind,
                             argument->name != NULL ? argument->name : "",
                             argument->type_name != NULL ? argument->type_name : "",
                             (guchar) argument->type, (guint64) argument->size,
                             argument->read_only);
    }

  g_variant_builder_close (builder);
  g_variant_builder_close (builder);
}

GVariant *
_gpu_kernel_describe_all (GpuProgramCore *program)
{
  const GpuBackend *backend = program->context->backend;
  g_auto (GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE (PROGRAM_TYPE));
  g_auto (GStrv) names = NULL;

  if (backend->program->list_kernels == NULL)
    return NULL;

  names = backend->program->list_kernels (program->context, program->native, NULL);
  if (names == NULL)
    return NULL;

  for (guint i = 0; names[i] != NULL; i++)
    {
      GpuNativeKernel *kernel = backend->program->create_kernel (program->context,
                                                                 program->native, names[i],
                                                                 NULL);

      if (kernel == NULL)
        return NULL;
      describe (&builder, names[i], kernel);
      backend->kernel->free (program->context, kernel);
    }

  return g_variant_builder_end (&builder);
}

static void
complete (GVariant        *description,
          GpuArgumentInfo *argument)
{
  const char *name;
  const char *type_name;
  guchar kind;
  guchar type;
  guint64 size;
  gboolean read_only;

  g_variant_get (description, "(y&s&sytb)", &kind, &name, &type_name, &type, &size, &read_only);

  if (argument->kind == GPU_ARGUMENT_KIND_UNKNOWN && kind <= GPU_ARGUMENT_KIND_SAMPLER)
    {
      argument->kind = kind;
      argument->type = type;
      argument->size = size;
      argument->read_only = read_only;
    }
  if (argument->name == NULL && *name != '\0')
    argument->name = name;
  if (argument->type_name == NULL && *type_name != '\0')
    argument->type_name = type_name;
}

void
_gpu_kernel_complete (GVariant        *descriptions,
                      const char      *name,
                      GpuArgumentInfo *arguments,
                      guint            n_arguments)
{
  g_autoptr (GVariant) described = NULL;

  if (!g_variant_is_of_type (descriptions, G_VARIANT_TYPE (PROGRAM_TYPE)))
    return;

  described = g_variant_lookup_value (descriptions, name, G_VARIANT_TYPE ("a" ARGUMENT_TYPE));
  if (described == NULL || g_variant_n_children (described) != n_arguments)
    return;

  for (guint i = 0; i < n_arguments; i++)
    {
      g_autoptr (GVariant) description = g_variant_get_child_value (described, i);

      complete (description, &arguments[i]);
    }
}
