/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The samplers that programs in the portable dialect name as constants, as the compiler reads them
 * and as launches make them.
 */
#pragma once

/* What constant samplers of the portable dialect say. What follows goes into what is compiled, too,
 * as text. */
#define GPU_CUDA_SAMPLER_WORDS(_) \
  _ (CLK_ADDRESS_NONE, 0) \
  _ (CLK_ADDRESS_CLAMP_TO_EDGE, 2) \
  _ (CLK_ADDRESS_CLAMP, 4) \
  _ (CLK_ADDRESS_REPEAT, 6) \
  _ (CLK_ADDRESS_MIRRORED_REPEAT, 8) \
  _ (CLK_NORMALIZED_COORDS_FALSE, 0) \
  _ (CLK_NORMALIZED_COORDS_TRUE, 1) \
  _ (CLK_FILTER_NEAREST, 0x10) \
  _ (CLK_FILTER_LINEAR, 0x20)

/* Of those words together: what is outside, counted from the edge on. */
#define GPU_CUDA_SAMPLER_OUTSIDE(clk) (((clk) >> 1 & 7) < 2 ? 0 : ((clk) >> 1 & 7) - 1)
#define GPU_CUDA_SAMPLER_IS_LINEAR(clk) ((clk) >> 5 & 1)
#define GPU_CUDA_SAMPLER_IS_NORMALIZED(clk) ((clk) & 1)

/* The number of a constant sampler by what it says. Coordinates that count texels come first, as
 * they cannot repeat the image; then by what is outside, then by the filter. */
#define GPU_CUDA_SAMPLER_NUMBER(clk) \
  ((GPU_CUDA_SAMPLER_IS_NORMALIZED (clk) ? 4 + 2 * GPU_CUDA_SAMPLER_OUTSIDE (clk) \
    : GPU_CUDA_SAMPLER_OUTSIDE (clk) < 2 ? 2 * GPU_CUDA_SAMPLER_OUTSIDE (clk) : 0) \
   + GPU_CUDA_SAMPLER_IS_LINEAR (clk))
#define GPU_CUDA_N_CONSTANT_SAMPLERS 12

/* Samplers among the arguments of a kernel, which have the next numbers. */
#define GPU_CUDA_MAX_SAMPLERS 8
#define GPU_CUDA_N_SAMPLERS (GPU_CUDA_N_CONSTANT_SAMPLERS + GPU_CUDA_MAX_SAMPLERS)

/* Where a sampler says beside its number that coordinates are normalized. */
#define GPU_CUDA_SAMPLER_SHIFT 16
