# SPDX-License-Identifier: LGPL-2.1-or-later
"""gpumem.mpi: messages of four processes, in memory of every device that GPUMEM_TEST selects. Each
test starts its processes with mpiexec; a function rank_NAME is the part of one process.

GPUMEM_TEST_MESSAGES is the number of messages of the longest test, by default 1000."""

import gc
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

from python_util import (DEADLINE, Fixture, Gpu, Skip, check_nothing_lives, equal, main,
                         need_numpy, np, raises)

RANKS = 4
MESSAGES = int(os.environ.get("GPUMEM_TEST_MESSAGES", 1000))
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",      # of Open MPI 5
    # Containers may forbid that a process reads the memory of another process
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_btl": "self,vader",
    "OMPI_MCA_plm_rsh_agent": "false",      # all processes run here, without ssh
}
EXAMPLE = "examples/python/mpi-ring.py"


def need_mpi():
    need_numpy()
    if shutil.which("mpiexec") is None:
        raise Skip("mpiexec is not installed")
    if importlib.util.find_spec("mpi4py") is None:
        raise Skip("mpi4py is not installed")


def is_process_of(mark, pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark.encode() in file.read()
    except OSError:
        return False


def wait_for_end(mark):
    """Waits until the processes have ended. Their shared memory ends with them, because it has no
    names in /dev/shm, as finish() checks."""
    deadline = time.monotonic() + DEADLINE
    while any(is_process_of(mark, pid) for pid in os.listdir("/proc") if pid.isdigit()):
        assert time.monotonic() < deadline, "processes are left"
        time.sleep(0.01)


def launch(*arguments, environment=()):
    """Runs a program in all ranks. Returns the exit status and the output."""
    need_mpi()
    mark = f"GPUMEM_TEST_MARK={random.getrandbits(64)}"
    command = ["mpiexec", "-n", str(RANKS), sys.executable, "-m", "mpi4py", *arguments]
    variables = {**os.environ, **ENVIRONMENT, **dict(environment), **dict([mark.split("=")])}
    process = subprocess.Popen(command, env=variables,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)      # mpiexec ends its processes
        raise AssertionError(f"hung: {process.communicate()[0]}") from None
    wait_for_end(mark)
    return process.returncode, output


def run_ranks(fixture, name, *arguments, **environment):
    status, output = launch(__file__, "--rank", name, fixture.device.get_id(), *arguments,
                            environment=environment)
    assert status == 0 and output.count("passed\n") == RANKS, f"{name}: status {status}: {output}"


# --- in a process of MPI --------------------------------------------------------------------------


class Rank(Fixture):
    """A process. Data are numbers that follow from a seed."""

    def __init__(self, device, direct):
        from gpumem import mpi
        from mpi4py import MPI
        super().__init__(Gpu.Device(device))
        self.mpi, self.MPI, self.direct = mpi, MPI, direct
        self.world, self.rank = MPI.COMM_WORLD, MPI.COMM_WORLD.rank
        self.left, self.right = (self.rank - 1) % RANKS, (self.rank + 1) % RANKS
        self.pool = Gpu.MemoryPool(self.context)

    def finish(self):
        with open("/proc/self/maps", encoding="utf-8") as file:
            equal([line for line in file if "/dev/shm/" in line and "gpumem" in line], [])
        self.world.Barrier()
        self.mpi.trim()
        self.__dict__.clear()
        check_nothing_lives()
        os.write(1, b"passed\n")        # whole: the ranks share a pipe

    def isend(self, memory, dest, tag=0, **kwargs):
        return self.mpi.isend(self.world, memory, dest, tag, direct=self.direct, **kwargs)

    def irecv(self, memory, source, tag=0, **kwargs):
        return self.mpi.irecv(self.world, memory, source, tag, direct=self.direct, **kwargs)

    def send(self, memory, dest, tag=0, **kwargs):
        self.mpi.send(self.world, memory, dest, tag, direct=self.direct, **kwargs)

    def recv(self, memory, source, tag=0, *args, **kwargs):
        self.mpi.recv(self.world, memory, source, tag, *args, direct=self.direct, **kwargs)

    def shift(self, memory, received, **kwargs):
        """Sends to the right and receives from the left."""
        self.mpi.sendrecv(self.world, memory, self.right, 0, received, self.left,
                          direct=self.direct, **kwargs)

    def array(self, data):
        return Gpu.Array.from_numpy(self.context, data)


def numbers(seed, shape=(6, 5), dtype="float32"):
    return np.random.RandomState(seed).randint(0, 100, shape).astype(dtype)


def check_kinds(rank):
    """Buffers, slices, memory of pools, arrays and None; 0, 1 and many bytes."""
    for size in (1, 4096, 300001):
        data = [random.Random(i).randbytes(size) for i in range(RANKS)]
        whole, far = rank.buffer(size + 256), rank.pool(size + 256)
        for sent, received in ((rank.buffer(data[rank.rank]), rank.buffer(size)),
                               (rank.pool(size), rank.pool(size)),
                               (whole[128:size + 128], far[256:size + 256])):
            sent.write(data[rank.rank])
            rank.shift(sent, received)
            equal(received.read(), data[rank.left])
    status = rank.MPI.Status()
    for nothing in (None, rank.pool(0), Gpu.Array(rank.context, (0, 4))):
        request = rank.isend(nothing, rank.right)
        rank.recv(nothing, rank.left, 0, status)
        request.wait()
        equal((status.Get_count(rank.MPI.BYTE), status.Get_source()), (0, rank.left))


def check_types(rank):
    """Elements have the type of MPI, so that plain mpi4py takes part; others are bytes."""
    status = rank.MPI.Status()
    for dtype in ("float32", "int64", "complex128", "bool", "float16"):
        array = rank.array(numbers(rank.rank, dtype=dtype))
        request = rank.isend(array, rank.right)
        plain = np.empty((6, 5), dtype)
        rank.world.Recv(plain.view("uint8") if dtype == "float16" else plain, rank.left, 0, status)
        request.wait()
        equal(plain.tolist(), numbers(rank.left, dtype=dtype).tolist(), dtype)
        equal(status.Get_count(rank.MPI.BYTE), plain.nbytes)
        request = rank.world.Isend(plain if dtype != "float16" else plain.view("uint8"), rank.right)
        rank.recv(array, rank.left)
        request.Wait()
        equal(array.to_numpy().tolist(), numbers((rank.left - 1) % RANKS, dtype=dtype).tolist())
    record = np.array([(rank.rank, 2.5)], [("a", "i2"), ("b", "f8")])
    received = rank.array(np.zeros_like(record))
    rank.shift(rank.array(record), received)
    equal(received.to_numpy().tolist(), [(rank.left, 2.5)])


def check_strided(rank):
    """Arrays with gaps and in Fortran order travel in C order, and gaps stay unchanged."""
    theirs = numbers(rank.left)
    for view in (lambda a: a[::2], lambda a: a[:, 1:3], lambda a: a.T, lambda a: a[::-1, ::-2],
                 lambda a: a[3], lambda a: a[2, 2, ...]):
        target = np.full((6, 5), 7, "float32")
        received = rank.array(target)
        rank.shift(view(rank.array(numbers(rank.rank))), view(received))
        view(target)[...] = view(theirs)
        equal(received.to_numpy().tolist(), target.tolist())
    fortran = Gpu.Array(rank.context, (6, 5), "float32", "F")
    rank.shift(rank.array(numbers(rank.rank)), fortran)
    equal(fortran.to_numpy().tolist(), theirs.tolist())


def check_short(rank):
    """The elements behind a short message do not change, and a long message is an error."""
    for view in (lambda a: a, lambda a: a[:, ::2]):
        received = rank.array(np.full((6, 5), 7, "float32"))
        request = rank.isend(rank.array(numbers(rank.rank, 4)), rank.right)
        rank.recv(view(received), rank.left)
        request.wait()
        expected = np.full((6, 5), 7, "float32")
        part = view(expected).copy().ravel()
        part[:4] = numbers(rank.left, 4)
        view(expected)[...] = part.reshape(view(expected).shape)
        equal(received.to_numpy().tolist(), expected.tolist())
    request = rank.isend(rank.array(numbers(rank.rank, 4)), rank.right)
    with raises(rank.MPI.Exception, "truncated"):
        rank.recv(rank.buffer(15), rank.left)
    request.wait()


def check_order(rank):
    """A send waits for earlier kernels, and later kernels for a receive, on any stream."""
    program, one, other = rank.program(), rank.new_stream(), rank.new_stream()
    n = 10000
    for turn in range(5):
        sent, received = rank.array(np.full(n, rank.rank, "uint32")), rank.buffer(4 * n)
        one.launch(program.triple, n, args=(sent,))
        other.launch(program.add, n, args=(sent, np.uint32(turn)))
        request = rank.irecv(received, rank.left, stream=other)
        rank.send(sent, rank.right, stream=one)
        one.launch(program.triple, n, args=(sent,))         # after the send
        request.wait()
        one.launch(program.triple, n, args=(received,))
        equal(received.to_numpy("uint32", stream=one).tolist(), [9 * rank.left + 3 * turn] * n)


def check_other_stream(rank):
    """A send does not wait for another stream, and fails with the error of earlier work."""
    if not rank.device.capabilities & Gpu.Capabilities.USER_EVENTS:
        return
    blocked, stream = rank.new_stream(), rank.new_stream()
    gate = rank.gate(blocked)
    blocked.fill(rank.buffer(100), 1)
    sent, received = rank.buffer(100), rank.buffer(100)
    stream.fill(sent, rank.rank)
    rank.shift(sent, received, stream=stream)
    equal(received.read(stream=stream), bytes([rank.left]) * 100)
    blocked.fill(sent, 1)
    gate.fail("spoiled")
    with raises(Gpu.Error, "spoiled"):
        rank.isend(sent, rank.right)
    blocked.fill(sent, 1)                   # writes all, so that the memory is usable again


def check_persistent(rank):
    sent = rank.array(np.zeros(1000, "int32"))
    received = rank.array(np.zeros(1000, "int32"))
    requests = (rank.mpi.recv_init(rank.world, received, rank.left, 5, direct=rank.direct),
                rank.mpi.send_init(rank.world, sent, rank.right, 5, direct=rank.direct))
    for turn in range(5):
        sent.fill(10 * turn + rank.rank)
        for request in requests:
            request.start()
        with raises(ValueError, "active"):
            requests[0].start()
        for request in requests:
            assert request.wait() and request.test()
        equal(set(received.to_numpy().tolist()), {10 * turn + rank.left})
    with raises(ValueError, "not persistent"):
        rank.isend(None, rank.MPI.PROC_NULL).start()


def check_mapped(rank):
    """Collectives, in place on the host."""
    flags, SUM = Gpu.MapFlags, rank.MPI.SUM
    array = rank.array(numbers(rank.rank))
    total = sum(numbers(i) for i in range(RANKS))
    with rank.mpi.mapped(array, direct=rank.direct) as data:
        rank.world.Allreduce(rank.MPI.IN_PLACE, data, SUM)
        if rank.device.backend == "host":
            equal(data.__array_interface__["data"][0], array.get_host_address())
    equal(array.to_numpy().tolist(), total.tolist())
    with rank.mpi.mapped(array[:, ::2], flags.WRITE_INVALIDATE, direct=rank.direct) as data:
        if not rank.direct:
            data[...] = numbers(9)[:, ::2]
        rank.world.Bcast(data if rank.direct else np.ascontiguousarray(data))
    if not rank.direct:
        total[:, ::2] = numbers(9)[:, ::2]
        equal(array.to_numpy().tolist(), total.tolist())
    if not rank.direct:
        pairs = np.ones(4, [("a", "i2"), ("b", "f8")])
        with raises(KeyError), rank.mpi.mapped(rank.array(pairs)) as data:
            rank.world.Allreduce(rank.MPI.IN_PLACE, data, SUM)      # not a sum of bytes
    part, whole = rank.buffer(bytes([rank.rank]) * 10), rank.pool(10 * RANKS)
    with rank.mpi.mapped(part, flags.READ, direct=rank.direct) as data, \
            rank.mpi.mapped(whole, flags.WRITE_INVALIDATE, direct=rank.direct) as gathered:
        rank.world.Allgather(data, gathered)
    equal(whole.read(), b"".join(bytes([i]) * 10 for i in range(RANKS)))
    if not rank.direct:
        with raises(ZeroDivisionError), rank.mpi.mapped(part) as data:
            data[:] = 9
            raise ZeroDivisionError
        equal(part.read(), bytes([9 if rank.device.backend == "host" else rank.rank]) * 10)


def check_dropped(rank):
    """Requests are dropped early, on this thread and on others."""
    for turn in range(20):
        data = [random.Random(RANKS * turn + i).randbytes(100000) for i in range(RANKS)]
        received = rank.pool(100000)
        rank.irecv(rank.pool(1000), rank.left, 99)          # cancelled: no message has this tag
        request = rank.irecv(received, rank.left)
        thread = threading.Thread(target=list, args=([rank.isend(rank.buffer(data[rank.rank]),
                                                                 rank.right)],))
        thread.start()
        thread.join()
        del thread
        while not request.test():
            time.sleep(0)
        del request
        equal(received.read(), data[rank.left])
    rank.mpi.send_init(rank.world, rank.buffer(10), rank.right, direct=rank.direct)
    # The cancelled receive took no message
    rank.world.Barrier()
    request = rank.isend(rank.buffer(b"late"), rank.right, 99)
    late = rank.buffer(4)
    rank.recv(late, rank.left, 99)
    request.wait()
    equal(late.read(), b"late")


def check_failed_copy(rank):
    """A message is not lost if the copy to the memory fails: the next wait() copies it."""
    sent = rank.array(numbers(rank.rank))
    for is_persistent in False, True:
        array = Gpu.Array(rank.context, (6, 10), "float32", allocator=rank.pool)
        part, status = array[:, ::2], rank.MPI.Status()
        if is_persistent:
            request = rank.mpi.recv_init(rank.world, part, rank.left, 6, direct=rank.direct)
            request.start()
        else:
            request = rank.irecv(part, rank.left, 6)
        array.memory.spill()
        rank.send(sent, rank.right, 6)
        for _ in range(2):
            with raises(Gpu.Error, "spilled"):
                request.wait()
        with raises(Gpu.Error, "spilled"):
            request.test()
        if is_persistent:
            with raises(ValueError, "active"):
                request.start()
        array.memory.unspill()
        assert request.wait(status)
        equal((status.Get_source(), status.Get_tag(), status.Get_count(rank.MPI.FLOAT)),
              (rank.left, 6, 30))
        equal(part.to_numpy().tolist(), numbers(rank.left).tolist())
        assert request.wait()
        if is_persistent:
            request.start()
            rank.send(sent, rank.right, 6)
            assert request.wait()
    request = rank.irecv(part, rank.left)
    array.memory.spill()
    rank.send(sent, rank.right)
    with raises(Gpu.Error, "spilled"):
        request.wait()
    del request, part, array                # with a message that was never copied


def check_flags_and_access(rank):
    array = Gpu.Array(rank.context, 16, "uint8")
    for wrong in "x", 7, 1, True, None, Gpu.MemoryFlags.READ_ONLY:
        with raises(TypeError, "gpumem.mpi.mapped(): flags must be", repr(wrong)[:2]), \
                rank.mpi.mapped(array, wrong):
            pass
    for wrong in 5, 7, 1 << 20:
        with raises(ValueError, "gpumem.mpi.mapped()", "flags"), \
                rank.mpi.mapped(array, Gpu.MapFlags(wrong)):
            pass
    for right in 0, Gpu.MapFlags.READ | Gpu.MapFlags.WRITE:
        with rank.mpi.mapped(array, right):
            pass
    buffer = Gpu.Buffer(rank.context, bytes(16), Gpu.MemoryFlags.READ_ONLY)
    for memory, words in ((buffer, ("memory of 16 bytes", "it is read-only")),
                          (Gpu.Array.for_memory(buffer, (4, 4), "uint8"),
                           ("an array of shape (4, 4)", "it is read-only")),
                          (Gpu.Array(rank.context, (1, 5)).broadcast_to((3, 5)),
                           ("an array of shape (3, 5)", "its elements share memory"))):
        with raises(ValueError, "gpumem.mpi.mapped()", "cannot be written", *words), \
                rank.mpi.mapped(memory):
            pass
        with raises(ValueError, "gpumem.mpi.recv()", "cannot be written", *words):
            rank.recv(memory, 0)
    with rank.mpi.mapped(buffer, Gpu.MapFlags.READ, direct=False) as data:
        equal(data.tolist(), [0] * 16)


def check_errors(rank):
    with raises(TypeError, "gpumem.mpi.isend(): memory", "'bytes'"):
        rank.isend(b"text", 0)
    with raises(ValueError, "gpumem.mpi.recv()", "(3, 5)"):
        rank.recv(Gpu.Array(rank.context, (1, 5)).broadcast_to((3, 5)), 0)
    with raises(rank.MPI.Exception, "nvalid rank"):
        rank.send(rank.buffer(10), 1000)
    for memory in rank.buffer(10), None, Gpu.Array(rank.context, (0, 4)):
        with raises(TypeError, "stream must be of type Gpu.Stream", "'x'"):
            rank.send(memory, 0, stream="x")
    rank.send(None, rank.MPI.PROC_NULL, stream=rank.stream)
    for comm in "comm", None, rank.MPI:
        with raises(TypeError, "gpumem.mpi.send(): comm must be", type(comm).__name__):
            rank.mpi.send(comm, rank.buffer(10), 0)
    released = rank.buffer(10)
    released.release()
    with raises(Gpu.Error.RELEASED):
        rank.send(released, 0)
    assert rank.mpi.is_cuda_aware() in (True, False)


def rank_exchange(rank):
    for name, check in list(globals().items()):
        if name.startswith("check_") and name != "check_nothing_lives":
            check(rank)
            gc.collect()
            rank.world.Barrier()


def make_message(rank, kind, size):
    """Returns memory that contains size bytes as a part of it."""
    if kind == 0:
        return rank.pool(size)
    if kind == 1:
        return rank.buffer(size + 128)[128:size + 128] if size > 0 else None
    if kind == 2:
        return Gpu.Array(rank.context, (2, size), "uint8", allocator=rank.pool)[1]
    return Gpu.Array(rank.context, (size, 3), "uint8")[:, 1]


def put(memory, data):
    if isinstance(memory, Gpu.Array):
        memory.write(np.frombuffer(data, "uint8"))
    elif memory is not None:
        memory.write(data)


def get(memory):
    if memory is None:
        return b""
    return memory.to_numpy().tobytes() if isinstance(memory, Gpu.Array) else memory.read()


def rank_random(rank):
    """Messages of random sizes in a random order. Each process waits for its oldest receive when
    it has 8. The senders drop the memory, and most requests."""
    chance, requests, expected = random.Random(7), [], []
    for number in range(MESSAGES):
        source, dest = chance.sample(range(RANKS), 2)
        size = chance.choice((0, 1, chance.randrange(100), chance.randrange(5000),
                              chance.randrange(200000)))
        kinds = chance.randrange(4), chance.randrange(4)
        keeps = chance.random() < 0.3
        data = random.Random(number).randbytes(size)
        if rank.rank == source:
            memory = make_message(rank, kinds[0], size)
            put(memory, data)
            request = rank.isend(memory, dest, number % 1000)
            if keeps:
                requests.append(request)
            del memory, request
        elif rank.rank == dest:
            memory = make_message(rank, kinds[1], size)
            expected.append((rank.irecv(memory, source, number % 1000), memory, data, number))
            del memory
        while len(expected) > 8 or expected and number == MESSAGES - 1:
            finish_one(expected)
    while expected:
        finish_one(expected)
    for request in requests:
        request.wait()


def finish_one(expected):
    request, memory, data, number = expected.pop(0)
    request.wait()
    del request
    assert get(memory) == data, f"message {number} of {len(data)} bytes is wrong"


def rank_guide(rank):
    from guide_util import Guide, run_section
    guide = Guide("several-processes")
    for section in guide.sections:
        run_section(guide, section, rank.device)


def rank_killed(rank):
    """The first process waits for the rest of a message whose sender was killed."""
    if rank.rank == 1:
        rank.send(rank.buffer(10), 0, 1)
        rank.isend(rank.buffer(64 << 20), 0, 2)
        os.kill(os.getpid(), signal.SIGKILL)
    if rank.rank == 0:
        received = rank.buffer(64 << 20)
        request = rank.irecv(received, 1, 2)
        rank.recv(rank.buffer(10), 1, 1)
        request.wait()
    rank.recv(rank.buffer(10), 1, 3)


def rank_abort(rank):
    if rank.rank == 2:
        rank.isend(rank.buffer(64 << 20), 0)
        rank.MPI.COMM_WORLD.Abort(3)
    rank.recv(rank.buffer(64 << 20), 2, 4)


def rank_error(rank):
    """The option -m mpi4py ends all processes after an exception in one."""
    if rank.rank == 3:
        raise Gpu.Error("one process fails")
    rank.recv(rank.buffer(10), 3)


def rank_ended(rank):
    """Dropped requests do not call MPI after MPI.Finalize(), which would end the process."""
    requests = [rank.mpi.recv_init(rank.world, rank.buffer(10), rank.left, direct=False),
                rank.mpi.send_init(rank.world, rank.buffer(10), rank.right, direct=False)]
    rank.world.Barrier()
    rank.MPI.Finalize()
    requests.clear()
    rank.mpi.trim()
    rank.mpi.trim()
    with raises(RuntimeError, "gpumem.mpi.is_cuda_aware()", "MPI.Finalize()"):
        rank.mpi.is_cuda_aware()
    os.write(1, b"passed\n")


# --- tests ----------------------------------------------------------------------------------------


def test_exchange(fixture):
    run_ranks(fixture, "exchange")


def test_exchange_direct(fixture):
    """As with a CUDA-aware MPI: MPI can access the memory of the stand-in without protection."""
    if not fixture.device.get_name().startswith("Stand-in"):
        raise Skip("this is for the stand-in for the CUDA driver")
    settings = os.environ.get("GPUMEM_CUDA_DRIVER")
    settings = f"{settings},protect=no" if settings else "protect=no"
    run_ranks(fixture, "exchange", "direct", GPUMEM_CUDA_DRIVER=settings)


def test_guide(fixture):
    """The code of the guide, in four processes."""
    run_ranks(fixture, "guide")


def test_random(fixture):
    run_ranks(fixture, "random")


def test_killed(fixture):
    """No process hangs after one was killed, or aborted, and no shared memory stays."""
    for name in ("killed", "abort", "error"):
        status, output = launch(__file__, "--rank", name, fixture.device.get_id())
        assert status != 0 and "passed" not in output, f"{status}: {output}"
        equal(output.count("Traceback"), int(name == "error"), output)


def test_ended(fixture):
    run_ranks(fixture, "ended")


def test_example(fixture):
    top = os.environ.get("TEST_TOP_SRCDIR")
    if not top:
        raise Skip("the examples are not here")
    status, output = launch(os.path.join(top, EXAMPLE),
                            environment={"GPUMEM_DEVICE": fixture.device.get_id()})
    assert status == 0 and "processes: 4" in output, f"{status}: {output}"


def plain_arguments_of_examples():
    """The examples explain their arguments, and refuse others."""
    need_mpi()
    top = os.environ.get("TEST_TOP_SRCDIR")
    if not top:
        raise Skip("the examples are not here")
    for name, argument, status, words in (
            ("mpi-ring", "--help", 0, "mpiexec -n 4"), ("mpi-ring", "abc", 2, "abc"),
            ("nccl-allreduce", "--help", 0, "number of GPUs"),
            ("nccl-allreduce", "abc", 2, "'abc'"),
            ("nccl-allreduce", "1", 77, "at least 2, not 1")):
        command = [sys.executable, os.path.join(top, f"examples/python/{name}.py"), argument]
        done = subprocess.run(command, capture_output=True, text=True,
                              env={**os.environ, **ENVIRONMENT})
        assert done.returncode == status and words in done.stdout + done.stderr, done
        assert "Traceback" not in done.stderr, done


def plain_without_mpi():
    """The module says that it needs mpi4py."""
    code = "import sys; sys.modules['mpi4py'] = None; import gpumem.mpi"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "mpi4py" in done.stderr, done.stderr


def plain_before_init():
    """Before MPI.Init(), is_cuda_aware() raises an error, and trim() has nothing to do."""
    need_mpi()
    code = """import mpi4py
mpi4py.rc.initialize = False
from gpumem import mpi
mpi.trim()
try:
    mpi.is_cuda_aware()
except RuntimeError as error:
    print(error)
mpi.MPI.Init()
print(mpi.is_cuda_aware())
mpi.MPI.Finalize()
mpi.is_cuda_aware()
mpi.trim()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, **ENVIRONMENT})
    words = done.stdout.split()
    assert done.returncode == 0 and "MPI.Init()" in words and words[-1] in ("True", "False"), done


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        process = Rank(sys.argv[3], True if "direct" in sys.argv[4:] else None)
        globals()[f"rank_{sys.argv[2]}"](process)
        if sys.argv[2] != "ended":
            process.finish()
    else:
        sys.exit(main(dict(globals())))
