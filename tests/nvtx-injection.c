/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stands in for the library of Nsight Systems, which NVTX_INJECTION64_PATH names: prints each range
 * of the domain gpumem on standard output, as "push THREAD DEPTH NAME: SIZE bytes" and
 * "pop THREAD DEPTH". DEPTH is the number of open ranges of the thread. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

static _Thread_local int depth;
static char domain;

#define DOMAIN ((nvtxDomainHandle_t) (void *) &domain)

static nvtxDomainHandle_t NVTX_API
domain_create (const char *name)
{
  printf ("domain %s\n", name);
  return strcmp (name, "gpumem") == 0 ? DOMAIN : NULL;
}

static int NVTX_API
range_push (nvtxDomainHandle_t handle, const nvtxEventAttributes_t *attributes)
{
  const char *name = attributes->messageType == NVTX_MESSAGE_TYPE_ASCII ? attributes->message.ascii
                                                                        : "(none)";
  unsigned long long size = attributes->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64
                            ? attributes->payload.ullValue : 0;

  printf ("push %d %d %s: %llu bytes\n", (int) gettid (), depth,
          handle == DOMAIN ? name : "(other domain)", size);
  return depth++;
}

static int NVTX_API
range_pop (nvtxDomainHandle_t handle)
{
  depth--;
  printf ("pop %d %d%s\n", (int) gettid (), depth, handle == DOMAIN ? "" : " (other domain)");
  return depth;
}

int InitializeInjectionNvtx2 (NvtxGetExportTableFunc_t get_table);

__attribute__ ((visibility ("default"))) int
InitializeInjectionNvtx2 (NvtxGetExportTableFunc_t get_table)
{
  const NvtxExportTableCallbacks *callbacks = get_table (NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table;
  unsigned int size;

  if (callbacks == NULL
      || !callbacks->GetModuleFunctionTable (NVTX_CB_MODULE_CORE2, &table, &size)
      || size <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer) domain_create;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer) range_push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer) range_pop;
  return 1;
}
