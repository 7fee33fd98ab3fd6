#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs PyTorch, CuPy, Numba, RMM and cuda.core on one pool of gpumem on a CUDA device, as far as
they are installed, and compares models of PyTorch with PyTorch's own allocators.

    benchmarks/adoption.py [--steps N] [--rounds N] [--device N] [CHECK...]

Needs the libraries that are compared, but not PyGObject. Finds the package gpumem beside itself, as
in the bundle for machines with a GPU, or in sys.path.
Each check and each measurement runs in a separate process. torch_models.py has the models. Peak is
the most memory that the allocator held from the driver, and the table divides it by the most memory
that PyTorch had requested at a time. Times are medians of the steps of a process; the table has the
smallest of all rounds, and its ratio to PyTorch with expandable segments."""

import argparse
import ctypes
import gc
import glob
import json
import os
import statistics
import subprocess
import sys
import time

import torch_models

MIB = 1 << 20
GIB = 1 << 30
HERE = os.path.dirname(os.path.abspath(__file__))
# In the order in which they need each other. Other libraries of these names would be too old.
OWN = ("libglib-2.0.so.0", "libgmodule-2.0.so.0", "libgobject-2.0.so.0", "libgio-2.0.so.0",
       "libgpumem-1.0.so.0")
NEEDED = ("libpcre2-8.so.0", "libffi.so.8", "libz.so.1", "libblkid.so.1", "libselinux.so.1",
          "libmount.so.1", "libOpenCL.so.1")


class Skip(Exception):
    """The check does not apply to this machine."""


# --- the library ----------------------------------------------------------------------------------


def load(path):
    try:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        return True
    except OSError:
        return False


def find_package():
    """Makes the package gpumem, and the libraries that it needs, known to this process."""
    bundle = os.path.dirname(os.path.dirname(HERE))
    packages = glob.glob(os.path.join(bundle, "gpumem", "lib", "python3*", "*-packages", "gpumem"))
    if packages:
        sys.path.insert(0, os.path.dirname(packages[0]))
        runtime = os.path.join(bundle, "runtime", "usr", "lib", "x86_64-linux-gnu")
        for name in NEEDED:
            if not load(name) and not load(os.path.join(runtime, name)):
                load(os.path.join(bundle, "runtime", "fallback", name))
        for name in OWN:
            for path in (os.path.join(bundle, "gpumem", "lib", name),
                         os.path.join(runtime, name), name):
                if load(path):
                    break
    import gpumem.allocators
    return gpumem.allocators


def need(name):
    try:
        return __import__(name, fromlist=["x"])
    except ImportError as error:
        raise Skip(f"no {name}: {error}") from error


def install(options, *libraries, limit=0):
    return find_package().install(libraries=libraries, device=options.device, limit=limit)


def figure(installed, name):
    return installed.statistics[name]


# --- checks ---------------------------------------------------------------------------------------


def check_torch(options):
    """Tensors on several streams and threads have the right content, all in the pool."""
    torch = need("torch")
    installed = install(options, "torch")
    import threading

    def work(seed):
        stream = torch.cuda.Stream()
        generator = torch.Generator().manual_seed(seed)
        with torch.cuda.stream(stream):
            for i in range(200):
                n = int(torch.randint(1, 1 << 20, (), generator=generator))
                a = torch.full((n,), i, device="cuda", dtype=torch.float32)
                b = a + seed
                b.record_stream(torch.cuda.default_stream())
                assert float(b[-1]) == i + seed and float(b.sum() / n) == i + seed
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    x = torch.zeros(10 * MIB, device="cuda", dtype=torch.uint8)
    assert figure(installed, "active-bytes") >= 10 * MIB
    del x
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return f"{figure(installed, 'managed-bytes')} bytes after empty_cache()"


def check_out_of_memory(options):
    """PyTorch raises its own error at the limit, and then allocates again."""
    torch = need("torch")
    install(options, "torch", limit=GIB)
    kept = torch.zeros(700 * MIB, device="cuda", dtype=torch.uint8)
    try:
        torch.zeros(600 * MIB, device="cuda", dtype=torch.uint8)
    except torch.OutOfMemoryError as error:
        name = f"{type(error).__name__}: {str(error)[:80]}"
    del kept
    torch.zeros(600 * MIB, device="cuda", dtype=torch.uint8)
    torch.cuda.synchronize()
    return name


def check_graph(options):
    """A graph computes right while other work takes all free memory."""
    torch = need("torch")
    installed = install(options, "torch")
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
    static = torch.randn(512, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad():
        with torch.cuda.stream(side):
            for _ in range(3):
                model(static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = model(static)
        before = figure(installed, "managed-bytes")
        for i in range(20):
            value = torch.randn(512, 1024, device="cuda")
            static.copy_(value)
            other = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(20)]
            graph.replay()
            assert torch.allclose(result, model(value), rtol=1e-2, atol=1e-3), i
            del other
            if i == 10:
                torch.cuda.empty_cache()
    torch.cuda.synchronize()
    del graph, result
    gc.collect()
    torch.cuda.empty_cache()
    return f"{before} bytes with the graph, {figure(installed, 'managed-bytes')} without"


def check_graph_training(options):
    """Training steps in a graph, beside a second graph that shares the memory."""
    torch = need("torch")
    install(options, "torch")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(),
                                torch.nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(256, 512, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        return loss
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(first):
        loss = step()
    with torch.cuda.graph(second, pool=first.pool()):
        doubled = model(inputs) * 2
    losses = []
    for _ in range(50):
        first.replay()
        second.replay()
        losses.append(float(loss))
    assert torch.isfinite(doubled).all() and losses[-1] < losses[0], losses
    return f"loss {losses[0]:.4f} to {losses[-1]:.4f}"


def check_mem_pool(options):
    """A torch.cuda.MemPool of the pool, after PyTorch's own allocator has started."""
    torch = need("torch")
    torch.zeros(10, device="cuda")
    allocators = find_package()
    pool = allocators.torch_mem_pool(device=options.device)
    installed = allocators.install(libraries=(), device=options.device)
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(8 * MIB, device="cuda", dtype=torch.uint8)
    assert int(x.sum()) == 8 * MIB
    assert figure(installed, "active-bytes") >= 8 * MIB
    return f"{figure(installed, 'active-bytes')} bytes"


def check_cupy(options):
    """PyTorch and CuPy share one limit: memory that one frees is there for the other."""
    torch, cupy = need("torch"), need("cupy")
    installed = install(options, "torch", "cupy", limit=2 * GIB)
    kept = torch.zeros(1500 * MIB, device="cuda", dtype=torch.uint8)
    try:
        cupy.zeros(GIB, dtype=cupy.uint8)
        raise AssertionError("CuPy exceeded the limit")
    except cupy.cuda.memory.OutOfMemoryError as error:
        name = type(error).__name__
    del kept
    y = cupy.full(1500 * MIB, 7, dtype=cupy.uint8)
    assert int(y[-1]) == 7
    try:
        torch.zeros(GIB, device="cuda", dtype=torch.uint8)
        raise AssertionError("PyTorch exceeded the limit")
    except torch.OutOfMemoryError as error:
        name += f" and {type(error).__name__}"
    with cupy.cuda.Stream(non_blocking=True):
        z = cupy.arange(MIB)
        assert int(z.sum()) == MIB * (MIB - 1) // 2
    del y, z
    shared = torch.from_dlpack(cupy.arange(1000))
    assert int(shared.sum()) == 499500
    assert figure(installed, "peak-managed-bytes") <= 2 * GIB
    return f"{name}; peak {figure(installed, 'peak-managed-bytes')} of {2 * GIB} bytes"


def check_numba(options):
    """Arrays of Numba."""
    numba_cuda, np = need("numba.cuda"), need("numpy")
    installed = install(options, "numba", limit=GIB)
    data = np.arange(MIB, dtype=np.float32)
    array = numba_cuda.to_device(data)
    assert figure(installed, "active-bytes") >= data.nbytes
    assert (array.copy_to_host() == data).all()
    try:
        numba_cuda.device_array(2 * GIB, dtype=np.uint8)
        raise AssertionError("Numba exceeded the limit")
    except Exception as error:      # CudaAPIError, from different modules in different versions
        name = f"{type(error).__name__}: {str(error)[:60]}"
        assert "MEMORY" in str(error), error
    del array
    return name


def check_rmm(options):
    """Buffers of RMM."""
    rmm = need("rmm")
    installed = install(options, "rmm", limit=GIB)
    buffer = rmm.DeviceBuffer(size=MIB)
    assert figure(installed, "active-bytes") >= MIB
    try:
        rmm.DeviceBuffer(size=2 * GIB)
        raise AssertionError("RMM exceeded the limit")
    except MemoryError as error:
        name = type(error).__name__
    del buffer
    return name


def check_cuda_core(options):
    """Buffers of cuda.core."""
    core = need("cuda.core")
    if not hasattr(core, "Device"):
        core = need("cuda.core.experimental")
    device = core.Device(options.device)
    device.set_current()
    installed = install(options, "cuda.core", limit=GIB)
    stream = device.create_stream()
    buffer = device.memory_resource.allocate(MIB, stream=stream)
    assert figure(installed, "active-bytes") >= MIB
    try:
        device.memory_resource.allocate(2 * GIB, stream=stream)
        raise AssertionError("cuda.core exceeded the limit")
    except Exception as error:
        name = f"{type(error).__name__}: {str(error)[:60]}"
        assert "MEMORY" in str(error).upper(), error
    buffer.close(stream)
    stream.sync()
    assert figure(installed, "active-bytes") == 0
    return name


CHECKS = {name[len("check_"):]: function for name, function in list(globals().items())
          if name.startswith("check_")}


# --- models ---------------------------------------------------------------------------------------


def measure(options, name, allocator):
    """Runs steps of a model. Prints the result as JSON."""
    if allocator == "expandable":
        os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    torch = need("torch")
    installed = install(options, "torch") if allocator == "gpumem" else None
    torch.cuda.set_device(options.device)           # from here on, the allocator cannot be changed
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    try:
        prepare = torch_models.MODELS[name](torch)
    except ImportError as error:
        raise Skip(f"{name}: {error}") from error
    generator = torch.Generator().manual_seed(3)
    times, works = [], []
    for i in range(options.steps):
        work, step = prepare(generator)
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = step()
        torch.cuda.synchronize()
        if i >= options.steps // 3:
            times.append((time.perf_counter() - start) / work)
            works.append(work)
        result = float(result)
        step = None
    if installed is not None:
        reserved, live = (figure(installed, f"peak-{name}-bytes") for name in ("managed", "active"))
    else:
        figures = torch.cuda.memory_stats()
        reserved = figures["reserved_bytes.all.peak"]
        live = figures["requested_bytes.all.peak"]
    print(json.dumps({"reserved": reserved, "live": live, "result": result,
                      "time": statistics.median(times) * statistics.median(works),
                      "version": torch.__version__,
                      "device": torch.cuda.get_device_name(options.device)}))


# --- the parent -----------------------------------------------------------------------------------


def run(options, *arguments):
    command = [sys.executable, os.path.abspath(__file__), "--device", str(options.device),
               "--steps", str(options.steps), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout.strip().split("\n")[-1], done.stderr


def run_check(options, name):
    try:
        status, line, errors = run(options, "--child", name)
    except subprocess.TimeoutExpired:
        status, line, errors = 1, "", "timed out"
    text = {0: "ok    ", 77: "skip  "}.get(status, "FAILED")
    print(f"{text} {name}: {line}", flush=True)
    if status not in (0, 77):
        print(errors[-3000:], flush=True)
    return status in (0, 77)


def compare(options, model):
    results = {"gpumem": [], "expandable": [], "native": []}
    for _ in range(options.rounds):
        for name, found in results.items():
            status, line, errors = run(options, "--model", model, "--allocator", name)
            if status == 77:
                print(f"skip   {model}: {line}")
                return True
            if status != 0:
                print(f"FAILED {model} with {name}\n{errors[-3000:]}", flush=True)
                return False
            found.append(json.loads(line))
    first = results["gpumem"][0]
    print(f"\n{torch_models.MODELS[model].__doc__}: PyTorch {first['version']}, "
          f"{first['device']}, {options.steps} steps, {options.rounds} rounds")
    rival = min(each["time"] for each in results["expandable"])
    print(f"{'allocator':26} {'peak, MiB':>10} {'of live':>8} {'step, ms':>9} {'ratio':>6} result")
    for name, found in results.items():
        step = min(each["time"] for each in found)
        peak = max(each["reserved"] for each in found)
        label = {"gpumem": "gpumem", "expandable": "PyTorch, expandable", "native": "PyTorch"}[name]
        print(f"{label:26} {peak / MIB:10.0f} {peak / found[0]['live']:8.4f} {step * 1000:9.3f} "
              f"{step / rival:6.3f} {found[0]['result']:.4f}", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--allocator", help=argparse.SUPPRESS)
    parser.add_argument("checks", nargs="*", metavar="CHECK",
                        default=[*CHECKS, *torch_models.MODELS],
                        help=f"{', '.join((*CHECKS, *torch_models.MODELS))}; default: all")
    options = parser.parse_args()
    try:
        if options.child:
            print(CHECKS[options.child](options))
            return 0
        if options.model:
            measure(options, options.model, options.allocator)
            return 0
    except Skip as reason:
        print(reason)
        return 77
    unknown = [name for name in options.checks if name not in CHECKS | torch_models.MODELS]
    if unknown:
        parser.error(f"no check is called {', '.join(unknown)}")
    good = [compare(options, name) if name in torch_models.MODELS else run_check(options, name)
            for name in options.checks]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
