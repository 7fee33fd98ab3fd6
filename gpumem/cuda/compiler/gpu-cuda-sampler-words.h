/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The constant samplers of the portable dialect, shared by the compiler and by launches.
 */
#pragma once

/* The names and values of sampler constants. The prelude of portable programs defines these
 * constants, and contains expansions of some of the macros below. */
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

/* The fields of @clk, a combination of the constants above. GPU_CUDA_SAMPLER_OUTSIDE() is 0 for
 * CLK_ADDRESS_NONE and CLK_ADDRESS_CLAMP_TO_EDGE, 1 for CLK_ADDRESS_CLAMP, 2 for CLK_ADDRESS_REPEAT
 * and 3 for CLK_ADDRESS_MIRRORED_REPEAT. */
#define GPU_CUDA_SAMPLER_OUTSIDE(clk) (((clk) >> 1 & 7) < 2 ? 0 : ((clk) >> 1 & 7) - 1)
#define GPU_CUDA_SAMPLER_IS_LINEAR(clk) ((clk) >> 5 & 1)
#define GPU_CUDA_SAMPLER_IS_NORMALIZED(clk) ((clk) & 1)

/* The number of a constant sampler. Samplers with the numbers 0 to 3 use unnormalized coordinates,
 * with which an image cannot repeat. All other samplers use normalized coordinates. In both groups,
 * the numbers are ordered by address mode, then by filter. */
#define GPU_CUDA_SAMPLER_NUMBER(clk) \
  ((GPU_CUDA_SAMPLER_IS_NORMALIZED (clk) ? 4 + 2 * GPU_CUDA_SAMPLER_OUTSIDE (clk) \
    : GPU_CUDA_SAMPLER_OUTSIDE (clk) < 2 ? 2 * GPU_CUDA_SAMPLER_OUTSIDE (clk) : 0) \
   + GPU_CUDA_SAMPLER_IS_LINEAR (clk))
#define GPU_CUDA_N_CONSTANT_SAMPLERS 12

/* The maximum number of sampler arguments of a kernel. The numbers of these samplers follow those
 * of the constant samplers. */
#define GPU_CUDA_MAX_SAMPLERS 8
#define GPU_CUDA_N_SAMPLERS (GPU_CUDA_N_CONSTANT_SAMPLERS + GPU_CUDA_MAX_SAMPLERS)

/* A kernel gets a sampler as a word. The low bits are the number of the sampler. The bit at this
 * position is set if the sampler uses normalized coordinates. */
#define GPU_CUDA_SAMPLER_SHIFT 16
