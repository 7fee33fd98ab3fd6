# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types that neither the GIR nor the source of the overrides contains."""

# Names for the types of arguments. Without NumPy, type checkers accept any object for types of
# NumPy. _typeshed only exists in type checkers, and has the buffer protocol for every version of
# Python.
ALIASES = '''
class _SupportsArray(Protocol):
    def __array__(self) -> _NDArray: ...

class _SupportsArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> _Dictionary: ...

class _SupportsCudaStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...

class _SupportsCudaArray(Protocol):
    @property
    def __cuda_array_interface__(self) -> _Dictionary: ...

class _SupportsDLPack(Protocol):
    def __dlpack__(self) -> object: ...

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

class _ArrayFlags:
    c_contiguous: bool
    f_contiguous: bool
    @property
    def contiguous(self) -> bool: ...
    @property
    def forc(self) -> bool: ...
    def __getitem__(self, name: str) -> bool: ...

_NDArray: TypeAlias = npt.NDArray[Any]
_NumpyDType: TypeAlias = np.dtype[Any]
_Dictionary: TypeAlias = dict[str, Any]
_DTypeLike: TypeAlias = DType | npt.DTypeLike
_ArrayLike: TypeAlias = npt.ArrayLike | _SupportsArray | _SupportsArrayInterface
_Readable: TypeAlias = (ReadableBuffer | _NDArray | np.generic | GLib.Bytes | _SupportsArray
                        | _SupportsArrayInterface)
_Writable: TypeAlias = WriteableBuffer | _NDArray
_Pattern: TypeAlias = int | _Readable
_Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
_Size: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | Extent
_Position: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | Layout
_Components: TypeAlias = Color | float | Sequence[float]
_Format: TypeAlias = ImageFormat | str
_LinearMemory: TypeAlias = Buffer | HostMemory | Svm
_MemoryLike: TypeAlias = Memory | Array | _NDArray
_AllocatorLike: TypeAlias = Allocator | Callable[[int], Memory]
_Source: TypeAlias = Context | Allocator
_Options: TypeAlias = str | Sequence[str] | None
_Path: TypeAlias = str | os.PathLike[str]
_FileLike: TypeAlias = File | Gio.File | _Path | bytes | int | _HasFileno
_OneKey: TypeAlias = SupportsIndex | slice | EllipsisType | None
_Key: TypeAlias = _OneKey | str | tuple[_OneKey, ...] | list[int] | _NDArray
_Argument: TypeAlias = (Memory | Array | MemoryBlock | Sampler | tuple[Image, Sampler] | Local
                        | In | Out | InOut | complex | _Readable | _SupportsCudaArray
                        | _SupportsDLPack | None)
_Described: TypeAlias = VectorArgument | ScalarArgument | OtherArgument
_Description: TypeAlias = str | Iterable[_Described | str]
'''

# Classes without __getattr__() in the stubs. With it, type checkers accept misspelled names. The
# driver attributes of memory are entries of memory.attributes.
WITHOUT_GETATTR = ("Memory", "StatisticsAllocator")

# Integers that __getattr__() of a class returns: counters, and the driver attributes that images of
# every back end have
COMPUTED = {
    "Image": ("array_size", "element_size", "num_channels", "num_mip_levels", "num_samples"),
    "StatisticsAllocator": ("current_bytes", "current_count", "peak_bytes", "peak_count",
                            "total_bytes", "total_count")}

# The memory of allocators that inherit alloc() or __call__() from Allocator
ALLOCATED = {"DeferredAllocator": "Buffer", "HostAllocator": "HostMemory",
             "ImmediateAllocator": "Buffer", "StreamAllocator": "Buffer", "SvmAllocator": "Svm"}

# Parameters by name, used if no entry of PARAMETERS_OF applies
PARAMETERS = {
    "stream": "Stream | None", "cancellable": "Gio.Cancellable | None",
    "headers": "dict[str, str] | None", "options": "_Options", "offset": "SupportsIndex",
    "source_offset": "SupportsIndex", "destination_offset": "SupportsIndex",
    "size": "SupportsIndex | None", "position": "SupportsIndex | None",
    "callback": "Gio.AsyncReadyCallback | None",
    "progress_callback": "Gio.FileProgressCallback | None",
    "progress_data": "tuple[object, ...] | None", "progress": "Callable[[int, int], object] | None",
    "order": "str", "dialect": "str", "shape": "_Shape", "other": "object", "upstream": "Allocator",
    "context": "Context", "allocator": "_AllocatorLike", "image_type": "ImageType | None",
    "type": "ImageType | None", "memo": "dict[int, object]", "traceback": "TracebackType | None",
    "bytes": "_Readable", "data": "_Readable", "target": "_Writable", "pattern": "_Pattern",
    "extent": "_Size", "origin": "_Position", "source_origin": "_Position", "layout": "_Position",
    "source_layout": "_Position", "destination_layout": "_Position", "data_layout": "_Position",
    "target_layout": "_Position", "format": "_Format", "color": "_Components",
    "dtype": "_DTypeLike", "grid": "_Size", "block": "_Size", "global_offset": "_Size",
    "args": "Sequence[_Argument] | Arguments", "indirect": "Iterable[_MemoryLike]",
    "source": "_MemoryLike", "destination": "_MemoryLike", "memories": "Iterable[_MemoryLike]",
    "strides": "_Shape", "protocol": "SupportsIndex", "form": "str",
    "kind": "type[BaseException] | None",
    "exception": "BaseException | None", "handle": "_Readable", "names": "Iterable[str] | None",
    "array": "_ArrayLike", "axis": "SupportsIndex",
    "axis1": "SupportsIndex", "axis2": "SupportsIndex", "copy": "bool | None",
    "kernel": "Kernel", "device": "Device | None", "declaration": "str",
    "arguments": "_Description", "value": "object", "*args": "object", "*exception": "object",
    "*user_data": "object", "timeout_usec": "SupportsIndex", "timeout": "float | None",
    "name": "str", "tag": "str | None", "events": "Iterable[Event]",
    "fds": "Gio.UnixFDList", "signal": "str"}

# Parameters of one function, as Class.function.parameter or function.parameter, of all functions
# of a class, as Class.*.parameter, or of a function of all classes, as *.function.parameter. A name
# with a star is that of the further arguments.
PARAMETERS_OF = {
    "*.__dlpack__.dl_device": "tuple[int, int] | None",
    "*.__dlpack__.max_version": "tuple[int, int] | None",
    "*.__dlpack__.stream": "int | Stream | _SupportsCudaStream | None",
    "Array.*.context": "_Source",
    "Array.__array__.dtype": "npt.DTypeLike",
    "Array.__contains__.value": "object",
    "Array.__getitem__.key": "_Key",
    "Array.__setitem__.key": "_Key",
    "Array.__setitem__.value": "_ArrayLike | Array",
    "Array.copy_to.target": "Array | _Source",
    "Array.copy_to_host.target": "_NDArray | None",
    "Array.empty_like.array": "Array | _NDArray",
    "Array.empty_like.context": "_Source | None",
    "Array.fill.value": "npt.ArrayLike",
    "Array.from_cuda_array_interface.context": "Context",
    "Array.from_cuda_array_interface.data": "_SupportsCudaArray",
    "Array.from_dlpack.context": "_Source | None",
    "Array.from_dlpack.data": "object",
    "Array.from_dlpack.device": "Device | str | tuple[int, int] | None",
    "Array.full.value": "npt.ArrayLike",
    "Array.for_memory.memory": "Memory",
    "Array.item.*index": "SupportsIndex | tuple[SupportsIndex, ...]",
    "Array.put.rows": "Iterable[SupportsIndex]",
    "Array.put.values": "npt.ArrayLike | Array",
    "Array.read_into.target": "_NDArray",
    "Array.reshape.*shape": "_Shape",
    "Array.split.length": "SupportsIndex",
    "Array.squeeze.axis": "SupportsIndex | tuple[SupportsIndex, ...] | None",
    "Array.take.rows": "Iterable[SupportsIndex]",
    "Array.transpose.*axes": "_Shape",
    "Array.write.data": "_ArrayLike | Array",
    "Array.zeros_like.array": "Array | _NDArray",
    "Array.zeros_like.context": "_Source | None",
    "Array.astype.casting": "str",
    "Buffer.__getitem__.key": "slice",
    "Buffer.__new__.size_or_data": "SupportsIndex | _Readable",
    "Buffer.copy_async.source": "_MemoryLike",
    "Buffer.export_fds.fds": "Gio.UnixFDList",
    "Context.allocator.allocator": "_AllocatorLike | None",
    "Context.__new__.device": "Device | str | Iterable[Device | str] | None",
    "Context.new.device": "Device",
    "Context.new_async.device": "Device",
    "DType.__new__.value": "_DTypeLike",
    "DeferredFreeAllocator.__new__.max_bytes": "int | None",
    "DeferredFreeAllocator.__new__.max_count": "int | None",
    "Device.__new__.name": "str | None",
    "Event.call.function": "Callable[..., _R]",
    "Event.new_wrapped.handle": "int",
    "ExternalAllocator.__new__.alloc": "Callable[[int, Stream | None], int]",
    "ExternalAllocator.__new__.free": "Callable[[int, int], object]",
    "FunctionAllocator.__init__.function": "Callable[[int], Memory]",
    "AllocatorAdaptor.do_alloc.size": "int",
    "AllocatorAdaptor.do_free.memory": "Memory",
    "FunctionAllocator.do_alloc.size": "int",
    "HostAllocator.__new__.numa_node": "int",
    "HostMemory.*.**kwargs": "HostMemoryFlags | int | None",
    "HostMemory.__new__.numa_node": "int",
    "HostMemory.registered.data": "_Writable | GLib.Bytes",
    "Image.*.source": "Image",
    "Image.from_array.mode": "str | None",
    "Image.from_array.n_channels": "int | None",
    "Image.new_wrapped.handle": "int",
    "ImageFormat.__new__.order": "ChannelOrder | str",
    "Kernel.*.*args": "_Argument",
    "Kernel.*.stream": "Stream",
    "LoggingAllocator.__new__.output": "_Path | Gio.OutputStream",
    "File.__new__.file": "_FileLike", "File.__new__.mode": "str",
    "Array.from_file.file": "_FileLike", "Array.to_file.file": "_FileLike",
    "InputStream.read_bytes.count": "SupportsIndex",
    "Memory.read_file.file": "_FileLike", "Memory.write_file.file": "_FileLike",
    "Memory.read_file_async.file": "_FileLike", "Memory.write_file_async.file": "_FileLike",
    "Memory.splice_async.connections": "Iterable[object]",
    "Mapping.__setitem__.key": "SupportsIndex | slice",
    "Mapping.__setitem__.value": "SupportsIndex | _Readable",
    "MemoryPool.__new__.limit": "int | None",
    "MemoryPool.new_for_allocator.allocator": "Allocator",
    "Program.*.source": "str",
    "Program.new_from_binary.binary": "_Readable",
    "Program.new_from_il.il": "_Readable",
    "Program.new_linked.images": "Iterable[_Readable]",
    "Sampler.*.**properties": "object",
    "OutputStream.splice.source": "Gio.InputStream",
    "OutputStream.splice.flags": "Gio.OutputStreamSpliceFlags",
    "OutputStream.write.buffer": "bytes", "OutputStream.write_all.buffer": "bytes",
    "OutputStream.write_bytes.bytes": "GLib.Bytes",
    "Stream.read_file.file": "_FileLike", "Stream.write_file.file": "_FileLike",
    "Stream.copy_batch.copies": "Iterable[tuple[object, ...]]",
    "Stream.call.*args": "object",
    "Stream.call.function": "Callable[..., _R]",
    "Svm.*.**kwargs": "SvmFlags | MemoryFlags | int",
    "VectorArgument.__init__.dtype": "npt.DTypeLike",
    "bind_arguments.values": "Iterable[object]",
    "match_dtype_to_c_struct.context": "Context | Device",
    "memory_of.array": "_MemoryLike",
    "In.__init__.array": "_Readable",
    "InOut.__init__.array": "_Writable",
    "Out.__init__.array": "_Writable",
}

# Results, as Class.function, *.function or function, and types of properties
RESULTS_OF = {
    "*.__cuda_array_interface__": "_Dictionary",
    "*.__dlpack__": "CapsuleType",
    "Allocator.get_memory_info": "tuple[int, int]",
    "AllocatorAdaptor.do_get_memory_info": "tuple[int, int]",
    "Array.__array__": "_NDArray",
    "Array.__array_interface__": "_Dictionary",
    "Array.__deepcopy__": "Array",
    "Array.__getitem__": "Array",
    "Array.__iter__": "Iterator[Array]",
    "Array.__reduce_ex__": "str | tuple[Any, ...]",
    "Array.copy_to_host": "_NDArray",
    "Array.dtype": "_NumpyDType",
    "Array.flags": "_ArrayFlags",
    "Array.from_cuda_array_interface": "Array",
    "Array.from_dlpack": "Array",
    "Array.itemsize": "int",
    "Array.memory": "_LinearMemory",
    "Array.read_into": "_NDArray",
    "Array.shape": "tuple[int, ...]",
    "Array.strides": "tuple[int, ...]",
    "Array.to_numpy": "_NDArray",
    "Array.to_numpy_async": "_NDArray",
    "Buffer.__copy__": "Buffer",
    "Buffer.__deepcopy__": "Buffer",
    "Buffer.__reduce_ex__": "str | tuple[Any, ...]",
    "Buffer.copy_async": "bool",
    "Buffer.fill_async": "bool",
    "Buffer.map_async": "Mapping",
    "Buffer.to_numpy": "_NDArray",
    "Color.__iter__": "Iterator[float]",
    "Color.__reduce__": "tuple[type[Color], tuple[float, ...]]",
    "Context.allocator": "Allocator | None",
    "Context.new_async": "Context",
    "Context.using_allocator": "Allocator",
    "DType.__copy__": "DType",
    "DType.__deepcopy__": "DType",
    "DType.__reduce__": "tuple[type[DType], tuple[str | _Dictionary]]",
    "DType.fields": "dict[str, tuple[DType, int, tuple[int, ...]]]",
    "DType.numpy": "_NumpyDType",
    "Device.__copy__": "Device",
    "Device.__deepcopy__": "Device",
    "Device.__reduce__": "tuple[type[Device], tuple[str]]",
    "Device.attributes": "_Dictionary",
    "Device.traits": "_Dictionary",
    "Event.__await__": "Generator[object, None, bool]",
    "Event.call": "Future[_R]",
    "Event.connect": "int",
    "Event.connect_after": "int",
    "Event.export_handle": "bytes",
    "Extent.__iter__": "Iterator[int]",
    "Extent.__reduce__": "tuple[type[Extent], tuple[int, ...]]",
    "FunctionAllocator.do_alloc": "Memory | None",
    "FunctionAllocator.do_get_context": "Context",
    "FunctionAllocator.function": "Callable[[int], Memory]",
    "HostMemory.__array_interface__": "_Dictionary",
    "HostMemory.empty": "_NDArray",
    "HostMemory.empty_like": "_NDArray",
    "HostMemory.read": "bytes",
    "HostMemory.synchronize_async": "bool",
    "HostMemory.to_numpy": "_NDArray",
    "HostMemory.view": "memoryview",
    "HostMemory.zeros": "_NDArray",
    "HostMemory.zeros_like": "_NDArray",
    "Image.copy": "bool",
    "Image.copy_async": "bool",
    "Image.dtype": "_NumpyDType",
    "Image.extent": "tuple[int, int, int]",
    "Image.fill_async": "bool",
    "Image.from_array": "Image",
    "Image.map_async": "Mapping",
    "Image.read": "bytes",
    "Image.read_async": "bytes",
    "Image.read_into": "int",
    "Image.read_into_async": "int",
    "Image.shape": "tuple[int, ...]",
    "Image.to_numpy": "_NDArray",
    "Image.write": "bool",
    "ImageFormat.__reduce__": "tuple[type[ImageFormat], tuple[str]]",
    "ImageFormat.dtype": "_NumpyDType",
    "Kernel.__call__": "bool",
    "Kernel.attributes": "_Dictionary",
    "Kernel.timed": "Callable[[], float]",
    "Layout.__iter__": "Iterator[int]",
    "Layout.__reduce__": "tuple[type[Layout], tuple[int, ...]]",
    "LimitAllocator.limit": "int",
    "Mapping.__array_interface__": "_Dictionary",
    "Mapping.__iter__": "Iterator[int]",
    "Program.__iter__": "Iterator[Kernel]",
    "Mapping.to_numpy": "_NDArray",
    "Mapping.view": "memoryview",
    "Memory.attributes": "_Dictionary",
    "MemoryBlock.copy": "MemoryBlock",
    "MemoryPool.history": "builtins.list[_Dictionary]",
    "MemoryPool.hooks": "int | None",
    "MemoryPool.snapshot": "builtins.list[_Dictionary]",
    "MemoryPool.statistics": "dict[str, int]",
    "Program.compile": "bytes",
    "Program.new_from_source_async": "Program",
    "ScalarArgument.dtype": "_NumpyDType | None",
    "StatisticsAllocator.counters": "dict[str, int]",
    "StatisticsAllocator.counting": "dict[str, int]",
    "StatisticsAllocator.pop": "dict[str, int]",
    "Stream.__await__": "Generator[object, None, bool]",
    "Stream.call": "Future[_R]",
    "Stream.launch": "bool",
    "Svm.empty": "_NDArray",
    "Svm.empty_like": "_NDArray",
    "Svm.map_async": "Mapping",
    "Svm.shaped": "Svm",
    "Svm.shaped_like": "Svm",
    "Svm.to_numpy": "_NDArray",
    "Svm.view": "memoryview",
    "Svm.zeros": "_NDArray",
    "Svm.zeros_like": "_NDArray",
    "TrackingAllocator.blocks": "builtins.list[_Dictionary]",
    "TrackingAllocator.report_usage": "str",
    "TrackingAllocator.tag": "str | None",
    "TrackingAllocator.usage": "builtins.list[_Dictionary]",
    "OtherArgument.declare": "str",
    "OutputStream.write_all": "tuple[bool, int]",
    "VectorArgument.declare": "str",
    "VectorArgument.dtype": "_NumpyDType | None",
    "bind_arguments": "builtins.list[Any]",
    "declare_arguments": "str",
    "get_current_allocator": "Allocator | None",
    "match_dtype_to_c_struct": "tuple[_NumpyDType, str]",
    "memory_of": "Memory",
    "parse_arguments": "builtins.list[_Described]",
}
